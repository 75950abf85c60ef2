"""Maps of the bits of an offset: swizzles, and linear maps over F2."""
