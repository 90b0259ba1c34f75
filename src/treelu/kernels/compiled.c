/* The Python module of the kernels: checks a call's arguments by the kernel's signature (see kernels.h), takes the arrays
   by Python's buffer protocol, and runs the kernel of the chosen level without the lock. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>

#include "kernels.h"

#if defined(__x86_64__)
extern const Table treelu_kernels_v1, treelu_kernels_v3, treelu_kernels_v4;
static const struct { const char *name; const Table *table; } LEVELS[] = {
    {"v1", &treelu_kernels_v1}, {"v3", &treelu_kernels_v3}, {"v4", &treelu_kernels_v4}};

static int best_level(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl")) return 1;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") ? 2 : 1;
}
#else
extern const Table treelu_kernels_own;
static const struct { const char *name; const Table *table; } LEVELS[] = {{"own", &treelu_kernels_own}};
static int best_level(void) { return 0; }
#endif

extern Kernel *const treelu_exact_kernels[];
static int in_use = 0;

#define SIGNED_AS(name, signature) {#name, signature},
static const struct { const char *name, *signature; } SIGNATURES[] = {KERNELS(SIGNED_AS) EXACT_KERNELS(SIGNED_AS)};

typedef struct {
    Call call;
    Py_buffer views[MOST_ARGUMENTS];
    int n_views, precision; /* −1, 0 for float, 1 for double */
} Prepared;

/* Whether elements are of a kind; notes what `call` has to know of them. */
static int is_of_kind(Prepared *to, int place, char kind, const Py_buffer *view) {
    const char *format = view->format;
    int is_float = !strcmp(format, "f"), is_double = !strcmp(format, "d"), is_integer = strchr("ilq", format[0]) && !format[1];
    to->call.is_wide[place] = view->itemsize == 8;
    if (kind == 'f') return is_float || is_double;
    if (kind == 'i') return is_integer && view->itemsize == 8;
    if (kind == 'j') return is_integer && view->itemsize == 4;
    if (kind == 's') return is_integer && (view->itemsize == 4 || view->itemsize == 8);
    if (kind == 'u') return strchr("LQ", format[0]) && !format[1] && view->itemsize == 8;
    if (!(is_float || is_double)) return 0;
    if (to->precision < 0) to->precision = is_double;
    return to->precision == is_double;
}

/* Compare an array's shape with "[a,b]"; the first array with a letter sets its size. */
static int has_shape(Prepared *to, const char *sizes, const Py_buffer *view) {
    int axis = 0;
    for (; *sizes != ']'; sizes++) {
        if (*sizes == '[' || *sizes == ',') continue;
        if (axis == view->ndim) return 0;
        int64_t *size = &to->call.size[(int)*sizes], length = view->shape[axis++];
        if (*sizes >= '0' && *sizes <= '9') {
            if (length != *sizes - '0') return 0;
        } else if (*size < 0) {
            *size = length;
        } else if (*size != length) {
            return 0;
        }
    }
    return axis == view->ndim;
}

/* Read one argument by its part "name:kind[sizes]" of the signature. */
static int read_argument(Prepared *to, const char *kernel, int place, const char *part, PyObject *given) {
    const char *kind = strchr(part, ':') + 1;
    Argument *argument = &to->call.given[place];
    if (*kind == 'x') {
        argument->x = PyFloat_AsDouble(given);
        return !PyErr_Occurred();
    }
    if (*kind == 'n') {
        PyObject *index = PyNumber_Index(given);
        if (!index) return 0;
        argument->n = (int64_t)PyLong_AsUnsignedLongLongMask(index);
        Py_DECREF(index);
        return !PyErr_Occurred();
    }
    argument->data = NULL;
    if (kind[1] == '?' && given == Py_None) return 1;
    int is_written = *kind >= 'A' && *kind <= 'Z';
    Py_buffer *view = &to->views[to->n_views];
    if (PyObject_GetBuffer(given, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (is_written ? PyBUF_WRITABLE : 0)) < 0) return 0;
    to->n_views++;
    argument->data = view->buf;
    if (is_of_kind(to, place, is_written ? *kind + 'a' - 'A' : *kind, view) && has_shape(to, strchr(kind, '['), view)) return 1;
    char shown[80];
    snprintf(shown, sizeof shown, "%.*s", (int)strcspn(part, " "), part);
    PyErr_Format(PyExc_TypeError, "%s: an array does not fit %s, by its type or by the arrays before it", kernel, shown);
    return 0;
}

static int read_arguments(Prepared *to, int number, PyObject *const *given, Py_ssize_t n_given) {
    const char *part = SIGNATURES[number].signature;
    int place = 0;
    memset(to->call.size, -1, sizeof to->call.size);
    for (; *part; part += strcspn(part, " "), part += strspn(part, " "), place++) {
        if (place == n_given) break;
        if (!read_argument(to, SIGNATURES[number].name, place, part, given[place])) return 0;
    }
    if (!*part && place == n_given) return 1;
    PyErr_Format(PyExc_TypeError, "%s: %zd arguments given; the signature is %s", SIGNATURES[number].name, n_given, SIGNATURES[number].signature);
    return 0;
}

static PyObject *run(int number, PyObject *const *given, Py_ssize_t n_given) {
    Prepared *to = malloc(sizeof *to);
    PyObject *result = NULL;
    volatile double value = 0;
    volatile int failed = 0;
    if (!to) return PyErr_NoMemory();
    to->n_views = to->call.next = to->call.n_pieces = 0, to->precision = -1;
    if (read_arguments(to, number, given, n_given)) {
        Kernel *kernel = number < N_KERNELS ? (*LEVELS[in_use].table)[number][to->precision == 1] : treelu_exact_kernels[number - N_KERNELS];
        Py_BEGIN_ALLOW_THREADS
        if (setjmp(to->call.out)) failed = 1;
        else value = kernel(&to->call);
        Py_END_ALLOW_THREADS
        for (int i = 0; i < to->call.n_pieces; i++) free(to->call.pieces[i]);
        result = failed ? PyErr_NoMemory() : PyFloat_FromDouble(value);
    }
    for (int i = 0; i < to->n_views; i++) PyBuffer_Release(&to->views[i]);
    free(to);
    return result;
}

#define CALLED(name, signature) \
    static PyObject *call_##name(PyObject *self, PyObject *const *given, Py_ssize_t n) { return run(number_of_##name, given, n); }
KERNELS(CALLED)
EXACT_KERNELS(CALLED)

static PyObject *get_level(PyObject *self, PyObject *none) { return PyUnicode_FromString(LEVELS[in_use].name); }

static PyObject *get_levels(PyObject *self, PyObject *none) {
    PyObject *names = PyTuple_New(best_level() + 1);
    for (int i = 0; names && i <= best_level(); i++) PyTuple_SetItem(names, i, PyUnicode_FromString(LEVELS[i].name));
    return names;
}

static PyObject *use(PyObject *self, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    for (int i = 0; i <= best_level(); i++)
        if (!strcmp(text, LEVELS[i].name)) {
            in_use = i;
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_ValueError, "this processor has no kernels of level %R", name);
}

#define LISTED(name, signature) {#name, (PyCFunction)(void (*)(void))call_##name, METH_FASTCALL, signature},
static PyMethodDef METHODS[] = {
    KERNELS(LISTED) EXACT_KERNELS(LISTED){"level", get_level, METH_NOARGS, "The level in use."},
    {"levels", get_levels, METH_NOARGS, "The levels that this processor can run, the fastest last."},
    {"use", use, METH_O, "Run the kernels of this level from now on."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "compiled", "Kernels compiled when the package was built.", -1, METHODS};

PyMODINIT_FUNC PyInit_compiled(void) {
    in_use = best_level();
    return PyModule_Create(&MODULE);
}
