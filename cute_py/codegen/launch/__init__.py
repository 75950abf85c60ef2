"""Launches: arguments are checked, all is prepared but addresses, faults are told."""
