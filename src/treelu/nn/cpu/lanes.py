"""Sums of a row's entries times their features' weights, with the sums held in vector registers.

A loop over an array of sums would load and store it for each entry: Numba's compiler cannot know that the array is no
part of the weights. Here the loop over entries is written in LLVM's own language on vectors of a fixed number of lanes,
which LLVM cuts to the width of the machine. The order of the additions is that of the plain loop.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _sums_in(lanes: int) -> Any:
    """total[column : column + lanes] = Σ values[e] · weight[d_e, column : column + lanes] over entries begin ≤ e < end.

    d_e is features[e], or e − begin where `features` is None. All arrays are contiguous.
    """

    @intrinsic
    def weighted_sums(
        context: Any, values: Any, features: Any, weight: Any, begin: Any, end: Any, column: Any, total: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            read, weights, into = (_data(context, builder, signature, arguments, place) for place in (0, 2, 6))
            begin, end, column = arguments[3:6]
            vector, size = ir.VectorType(context.get_data_type(weight.dtype), lanes), weight.dtype.bitwidth // 8
            n_columns = builder.extract_value(weights.shape, 1)
            sums = cgutils.alloca_once_value(builder, ir.Constant(vector, None))
            one = ir.Constant(begin.type, 1)
            with cgutils.for_range_slice(builder, begin, end, one, intp=begin.type) as (entry, _):
                x = context.cast(builder, builder.load(builder.gep(read.data, [entry])), values.dtype, weight.dtype)
                if isinstance(features, types.NoneType):
                    feature = builder.sub(entry, begin)
                else:
                    numbers = _data(context, builder, signature, arguments, 1)
                    number = builder.load(builder.gep(numbers.data, [entry]))
                    feature = context.cast(builder, number, features.dtype, types.intp)
                start = builder.add(builder.mul(feature, n_columns), column)
                row = builder.load(_vector_at(builder, weights, start, vector), align=size)
                product = builder.fmul(_in_all_lanes(builder, x, vector), row, flags=("contract",))
                builder.store(builder.fadd(builder.load(sums), product, flags=("contract",)), sums)
            builder.store(builder.load(sums), _vector_at(builder, into, column, vector), align=size)
            return context.get_dummy_value()

        return types.void(values, features, weight, types.intp, types.intp, types.intp, total), generate

    return weighted_sums


def _data(context: Any, builder: Any, signature: Any, arguments: Any, place: int) -> Any:
    """An array among the arguments."""
    return context.make_array(signature.args[place])(context, builder, arguments[place])


def _vector_at(builder: Any, array: Any, start: Any, vector: Any) -> Any:
    """The address of the element `start`, as that of a vector."""
    return builder.bitcast(builder.gep(array.data, [start]), vector.as_pointer())


def _in_all_lanes(builder: Any, x: Any, vector: Any) -> Any:
    """A number in all lanes of a vector."""
    word = ir.IntType(32)
    blank = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(blank, x, word(0))
    return builder.shuffle_vector(first, blank, ir.Constant(ir.VectorType(word, vector.count), None))


sums_in_16, sums_in_8 = _sums_in(16), _sums_in(8)
