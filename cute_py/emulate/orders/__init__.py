"""`cute.check_orders`: a kernel in every order of its threads, from one run where that suffices."""
