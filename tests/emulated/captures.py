"""Ways in which what a kernel takes from outside changes; see `test_captured`."""

# name: (what is there before, the value that the kernel takes: 1, the change: then it is 2)
WATCHED = {
    "what an argument reads of a captured class": (
        "class C: n = 1\nc = C\ndef f(x): return x.n\nGIVEN = (f,)",
        "d(c)",
        "C.n = 2",
    ),
    "helper of an argument": (
        "def g(): return 1\ndef f(): return g()\nGIVEN = (f,)",
        "d()",
        "def g(): return 2",
    ),
    "global number": ("N = 1", "N", "N = 2"),
    "helper": ("def f(): return 1", "f()", "def f(): return 2"),
    "global of a helper": ("N = 1\ndef f(): return N", "f()", "N = 2"),
    "helper of a helper": (
        "def h(): return 1\ndef g(): return h()\ndef f(): return g()",
        "f()",
        "def h(): return 2",
    ),
    "recursive helper": (
        "N = 1\ndef f(n): return N if n == 0 else g(n - 1)\ndef g(n): return f(n)",
        "f(3)",
        "N = 2",
    ),
    "code of a helper": (
        "def f(): return 1\ndef g(): return 2",
        "f()",
        "f.__code__ = g.__code__",
    ),
    "defaults of a helper": ("def f(n=1): return n", "f()", "f.__defaults__ = (2,)"),
    "keyword defaults of a helper": (
        "def f(*, n=1): return n",
        "f()",
        "f.__kwdefaults__ = {'n': 2}",
    ),
    "keyword default in place": (
        "def f(*, n=1): return n",
        "f()",
        "f.__kwdefaults__['n'] = 2",
    ),
    "defaults of the kernel": ("", "d", "kernel.function.__defaults__ = (2,)"),
    "code of the kernel": (
        "def other(x, d=1):\n    cute.launch(grid=2, block=32)\n    x[0] = 2",
        "d",
        "kernel.function.__code__ = other.__code__",
    ),
    "cell of a helper": (
        "def make():\n"
        "    n = 1\n"
        "    def set(m):\n"
        "        nonlocal n\n"
        "        n = m\n"
        "    return lambda: n, set\n"
        "f, set_n = make()",
        "f()",
        "set_n(2)",
    ),
    "decorated helper": (
        "import functools\n"
        "def twice(f):\n"
        "    @functools.wraps(f)\n"
        "    def run(): return f()\n"
        "    return run\n"
        "N = 1\n"
        "@twice\n"
        "def f(): return N",
        "f()",
        "N = 2",
    ),
    "helper in a context manager": (
        "import contextlib\n"
        "N = 1\n"
        "@contextlib.contextmanager\n"
        "def held(): yield N\n"
        "def f():\n"
        "    with held() as n:\n"
        "        return n",
        "f()",
        "N = 2",
    ),
    "class attribute": ("class C: n = 1", "C.n", "C.n = 2"),
    "class attribute by text": ("class C: n = 1", "getattr(C, 'n')", "C.n = 2"),
    "class attribute by a name that is held": (
        "class C: n = 1\nNAME = 'n'",
        "getattr(C, NAME)",
        "C.n = 2",
    ),
    "class attribute by a name that is passed": (
        "class C: n = 1\nGIVEN = ('n',)",
        "getattr(C, d)",
        "C.n = 2",
    ),
    "class attribute by a computed name": (
        "class C: n1 = 1",
        "getattr(C, 'n' + str(1))",
        "C.n1 = 2",
    ),
    "class attribute by attrgetter": (
        "import operator\nclass C: n = 1\nf = operator.attrgetter('n')",
        "f(C)",
        "C.n = 2",
    ),
    "module attribute by a computed name": (
        "import config; config.n1 = 1",
        "vars(config)['n' + str(1)]",
        "config.n1 = 2",
    ),
    "class attribute that comes up": ("class C: pass", "getattr(C, 'n', 1)", "C.n = 2"),
    "class attribute that hides": (
        "class B: n = 1\nclass C(B): pass",
        "C.n",
        "C.n = 2",
    ),
    "attribute of a base": ("class B: n = 1\nclass C(B): pass", "C.n", "B.n = 2"),
    "bases of a class": (
        "class A: n = 1\nclass B: n = 2\nclass C(A): pass",
        "C.n",
        "C.__bases__ = (B,)",
    ),
    "static method": (
        "class C:\n    @staticmethod\n    def f(): return 1",
        "C.f()",
        "C.f = staticmethod(lambda: 2)",
    ),
    "global of a static method": (
        "N = 1\nclass C:\n    @staticmethod\n    def f(): return N",
        "C.f()",
        "N = 2",
    ),
    "class method": (
        "class C:\n    n = 1\n    @classmethod\n    def f(cls): return cls.n",
        "C.f()",
        "C.n = 2",
    ),
    "class redefined": ("class C: n = 1", "C().n", "class C: n = 2"),
    "constructor": (
        "N = 1\nclass C:\n    def __init__(self): self.n = N",
        "C().n",
        "N = 2",
    ),
    "metaclass": (
        "class M(type):\n    @property\n    def n(cls): return N\n"
        "N = 1\n"
        "class C(metaclass=M): pass",
        "C.n",
        "N = 2",
    ),
    "module attribute": ("import config; config.n = 1", "config.n", "config.n = 2"),
    "module in a module": (
        "import config, types; config.sub = types.ModuleType('sub'); config.sub.n = 1",
        "config.sub.n",
        "config.sub.n = 2",
    ),
    "function of a module": (
        "import config; config.f = lambda: 1",
        "config.f()",
        "config.f = lambda: 2",
    ),
    "module imported by a helper": (
        "import config; config.n = 1\ndef f():\n    import config\n    return config.n",
        "f()",
        "config.n = 2",
    ),
    "frozen dataclass": (
        "@dataclass(frozen=True)\nclass C: n: int\nc = C(1)",
        "c.n",
        "c = C(2)",
    ),
    "method of a frozen dataclass": (
        "@dataclass(frozen=True)\n"
        "class C:\n"
        "    n: int\n"
        "    @property\n"
        "    def m(self): return self.n * N\n"
        "N = 1\n"
        "c = C(1)",
        "c.m",
        "N = 2",
    ),
    "enum": ("class E(Enum):\n    A = 1\n    B = 2\ne = E.A", "e.value", "e = E.B"),
    "flag": ("class E(IntEnum):\n    A = 1\n    B = 2\ne = E.A", "int(e)", "e = E.B"),
    "scalar of NumPy": ("n = np.float32(1)", "int(n)", "n = np.float32(2)"),
    "named tuple": (
        "from collections import namedtuple\nC = namedtuple('C', 'n')\nc = C(1)",
        "c.n",
        "c = C(2)",
    ),
    "class without a module": (
        "scope = {'n': 1}; exec('class C: n = 1', scope); C = scope['C']",
        "C.n",
        "C.n = 2",
    ),
    "default of a field": (
        "N = 1\ndef made(): return N\n"
        "@dataclass(frozen=True)\nclass C: n: int = field(default_factory=lambda: made())",
        "C().n",
        "def made(): return 2",
    ),
    "kernel in a kernel": (
        "def f(): return 1\n@cute.kernel\ndef k(): return f()",
        "k.function()",
        "def f(): return 2",
    ),
    "layout": ("l = cute.Layout(1)", "cute.size(l)", "l = cute.Layout(2)"),
    "class of an argument": (
        "@dataclass(frozen=True)\nclass C:\n    def m(self): return 1\nGIVEN = (C(),)",
        "d.m()",
        "C.m = lambda self: 2",
    ),
    "helper of the class of an argument": (
        "@dataclass(frozen=True)\n"
        "class C:\n"
        "    def m(self): return f()\n"
        "def f(): return 1\n"
        "GIVEN = ((C(),),)",
        "d[0].m()",
        "def f(): return 2",
    ),
}

# these can change without a trace in what is watched: their kernels look closer at each call
LOOKED_AT = {
    "list": ("l = [1]", "l[0]", "l[0] = 2"),
    "dict": ("l = {'n': 1}", "l['n']", "l['n'] = 2"),
    "set": ("l = {1}", "min(l)", "l.clear(); l.add(2)"),
    "deque": ("import collections; l = collections.deque([1])", "l[0]", "l[0] = 2"),
    "lambda in a dict": ("l = {'f': lambda: 1}", "l['f']()", "l['f'] = lambda: 2"),
    "global of a lambda in a dict": ("N = 1\nl = {'f': lambda: N}", "l['f']()", "N = 2"),
    "object": ("class C: pass\nc = C(); c.n = 1", "c.n", "c.n = 2"),
    "object with slots": ("class C: __slots__ = 'n'\nc = C(); c.n = 1", "c.n", "c.n = 2"),
    "object that compares by a part": (
        "class C:\n"
        "    def __init__(self, n): self.n = n\n"
        "    def __eq__(self, other): return True\n"
        "    def __hash__(self): return 1\n"
        "c = C(1)",
        "c.n",
        "c.n = 2",
    ),
    "method of an object": (
        "class C:\n    def f(self): return 1\nc = C()",
        "c.f()",
        "C.f = lambda self: 2",
    ),
    "bound method": (
        "class C:\n    def f(self): return self.n\nc = C(); c.n = 1; f = c.f",
        "f()",
        "c.n = 2",
    ),
    "callable object": (
        "class C:\n    def __call__(self): return N\nN = 1\nc = C()",
        "c()",
        "N = 2",
    ),
    "bound method of a list": ("l = [1]; f = l.__getitem__", "f(0)", "l[0] = 2"),
    "dataclass": ("@dataclass\nclass C: n: int\nc = C(1)", "c.n", "c.n = 2"),
    "dataclass rebound": ("@dataclass\nclass C: n: int\nc = C(1)", "c.n", "c = C(2)"),
    "namespace": ("from types import SimpleNamespace as S\nc = S(n=1)", "c.n", "c.n = 2"),
    "array of NumPy": ("a = np.array([1])", "int(a[0])", "a[0] = 2"),
    "large array of NumPy": ("a = np.ones(1000)", "int(a[999])", "a[999] = 2"),
    "objects in an array": ("a = np.array([[1], [3]], object)", "a[0, 0]", "a[0, 0] = 2"),
    "list of a default": ("def f(l=[1]): return l[0]", "f()", "f.__defaults__[0][0] = 2"),
    "list of a class": ("class C: l = [1]", "C.l[0]", "C.l[0] = 2"),
    "partial": (
        "import functools\ndef g(n): return n * N\nN = 1\nf = functools.partial(g, 1)",
        "f()",
        "N = 2",
    ),
    "keywords of a partial": (
        "import functools\ndef g(n): return n\nf = functools.partial(g, n=1)",
        "f()",
        "f.keywords['n'] = 2",
    ),
    "dict view": ("l = {'n': 1}; v = l.values()", "next(iter(v))", "l['n'] = 2"),
    "bytes": ("l = bytearray(b'1')", "int(l)", "l[0] = 50"),
    "array": ("import array; l = array.array('i', [1])", "l[0]", "l[0] = 2"),
    "list in an object in a dict": (
        "from types import SimpleNamespace as S\nl = {'c': S(l=[1])}",
        "l['c'].l[0]",
        "l['c'].l[0] = 2",
    ),
    "object of a class of numbers": (
        "class I(int): pass\ni = I(1); i.n = 1",
        "i.n",
        "i.n = 2",
    ),
    "list in itself": ("l = [1]; l.append(l)", "l[1][0]", "l[0] = 2"),
    "argument with slots": (
        "class C: __slots__ = 'n'\nc = C(); c.n = 1; GIVEN = (c,)",
        "d.n",
        "c.n = 2",
    ),
    "what an argument reads of another": (
        "class C: n = 1\ndef f(x): return x.n\nGIVEN = ([f, C],)",
        "d[0](d[1])",
        "C.n = 2",
    ),
    "class attribute of an argument": (
        "class C: n = 1\nGIVEN = (C(),)",
        "d.n",
        "C.n = 2",
    ),
}
