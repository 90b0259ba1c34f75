/* All kernels in float and in double, compiled once for each level of the processor: LEVEL names it. */
#include <math.h>

#include "kernels.h"

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

/* A sum that is added to others in the order written, where the compiler can be told so */
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define IN_ORDER(sum) __builtin_assoc_barrier(sum)
#endif
#endif
#ifndef IN_ORDER
#define IN_ORDER(sum) (sum)
#endif

#define JOINED_(a, b) a##_##b
#define JOINED(a, b) JOINED_(a, b)
#define NAME(name) JOINED(name, REAL)

/* ROWS rows stand side by side in the last axis of a block. All inner loops run over whole blocks: a row is computed in
   the same way wherever it stands, whatever the number of threads. */
enum { ROWS = 32, COLUMNS = 8 };

#define REAL float
#define WORD uint32_t
#define SIGNED int32_t
#define EXP expf
#define LOG logf
#define LOG1P log1pf
#define SQRT sqrtf
#include "arithmetic.h"
#include "soft_tree.h"
#include "learning.h"
#include "network.h"
#include "splits.h"
#undef REAL
#undef WORD
#undef SIGNED
#undef EXP
#undef LOG
#undef LOG1P
#undef SQRT

#define REAL double
#define WORD uint64_t
#define SIGNED int64_t
#define EXP exp
#define LOG log
#define LOG1P log1p
#define SQRT sqrt
#include "arithmetic.h"
#include "soft_tree.h"
#include "learning.h"
#include "network.h"
#include "splits.h"

#define BOTH(name, signature) {name##_float, name##_double},
const Table JOINED(treelu_kernels, LEVEL) = {KERNELS(BOTH)};
