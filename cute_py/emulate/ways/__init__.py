"""`cute.follow`: the way of one element through a kernel, forwards and backwards."""
