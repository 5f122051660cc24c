"""Machine operations that numba does not offer by name: unaligned loads, bits, vectors."""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.extending import intrinsic

from modtok_cli.text import bits_plain

LANES = bits_plain.LANES
"""Bytes that `copy_until` and `utf8_faults` take at once."""


def _load64(typing: Any, data: Any, at: Any) -> Any:
    """The eight bytes `data[at:at + 8]` of a uint8 array or pointer as one little-endian uint64.

    No bounds check.
    """
    signature = types.uint64(data, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arguments[0]
        if isinstance(signature.args[0], types.Array):
            data = context.make_array(signature.args[0])(context, builder, data).data
        eight = ir.IntType(64)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), eight.as_pointer())
        return builder.load(place, align=1)

    return signature, generate


def _trailing_zeros(typing: Any, value: Any) -> Any:
    """Number of zero bits below the lowest one of a uint64 that is not 0."""
    signature = types.int64(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, generate


def _leading_zeros(typing: Any, value: Any) -> Any:
    """Number of zero bits above the highest one of a uint64 that is not 0."""
    signature = types.uint64(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, generate


def _reduced(builder: Any, operation: str, vector: Any) -> Any:
    """All numbers of a vector of 64-bit integers in one, by `smax`, `or`, ..."""
    name = f"llvm.vector.reduce.{operation}.v{vector.type.count}i64"
    kind = ir.FunctionType(ir.IntType(64), [vector.type])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, [vector])


def _eight_from(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Pointer to data[at] of a uint64 array, as one to vectors of eight numbers."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    vector = ir.VectorType(ir.IntType(64), 8)
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), vector.as_pointer())


def _choose(typing: Any, condition: Any, one: Any, other: Any) -> Any:
    """`one` if the condition holds, else `other`, uint64, without a jump."""
    signature = types.uint64(types.boolean, types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen = builder.select(*arguments)
        chosen.set_metadata("unpredictable", builder.module.add_metadata([]))
        return chosen

    return signature, generate


def _highest8(typing: Any, data: Any, at: Any) -> Any:
    """The greatest of data[at:at + 8], a uint64 array of numbers below 2^63; no bounds check."""
    signature = types.uint64(data, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = builder.load(_eight_from(context, builder, signature, arguments), align=8)
        return _reduced(builder, "smax", eight)

    return signature, generate


def _value_of(typing: Any, data: Any, at: Any, key: Any) -> Any:
    """data[at + 4 + i] for the i below 4 with data[at + i] == key, else 0; no bounds check.

    `data` is a uint64 array. Keys are compared at once, without a branch.
    """
    signature = types.uint64(data, types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = builder.load(_eight_from(context, builder, signature, arguments), align=8)
        none = ir.Constant(eight.type, ir.Undefined)
        kind = ir.VectorType(ir.IntType(32), 4)
        keys, values = (
            builder.shuffle_vector(eight, none, ir.Constant(kind, list(range(i, i + 4))))
            for i in (0, 4)
        )
        wanted = ir.Constant(keys.type, ir.Undefined)
        for i in range(4):
            place = ir.Constant(ir.IntType(32), i)
            wanted = builder.insert_element(wanted, arguments[2], place)
        same = builder.sext(builder.icmp_unsigned("==", keys, wanted), keys.type)
        return _reduced(builder, "or", builder.and_(same, values))

    return signature, generate


def _place64(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Pointer to data[at] of a uint64 array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _load_acquire(typing: Any, data: Any, at: Any) -> Any:
    """data[at] of a uint64 array; what follows reads what was written before `store_release`."""
    signature = types.uint64(data, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place64(context, builder, signature, arguments)
        return builder.load_atomic(place, ordering="acquire", align=8)

    return signature, generate


def _store_release(typing: Any, data: Any, at: Any, value: Any) -> Any:
    """Set data[at] of a uint64 array, after all that was written before, for `load_acquire`."""
    signature = types.void(data, types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place64(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, ordering="release", align=8)
        return context.get_dummy_value()

    return signature, generate


def _prefetch(typing: Any, data: Any, at: Any) -> Any:
    """Prefetch the cache line of data[at], an array."""
    signature = types.void(data, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, word = ir.IntType(8), ir.IntType(32)
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte.as_pointer()], kind)
        # For reading: threads share tables. Kept in all caches, of data (not instructions).
        builder.call(function, [place, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


def _copy_until(typing: Any, data: Any, at: Any, out: Any, to: Any) -> Any:
    """Copy data[at:at + 32] to out[to:to + 32]; say where JSON strings end or have escapes.

    Bit i of the uint32 is set if byte i is a quote, a backslash or a control character. Both
    are uint8 arrays; no bounds check.
    """
    signature = types.uint32(data, types.int64, out, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2)
        ]
        vector = ir.VectorType(ir.IntType(8), LANES)
        source, target = (
            builder.bitcast(builder.gep(array.data, [arguments[i]]), vector.as_pointer())
            for array, i in zip(arrays, (1, 3), strict=True)
        )
        loaded = builder.load(source, align=1)
        builder.store(loaded, target, align=1)
        quote, backslash, space = (ir.Constant(vector, [byte] * LANES) for byte in b'"\\ ')
        found = builder.or_(
            builder.or_(
                builder.icmp_unsigned("==", loaded, quote),
                builder.icmp_unsigned("==", loaded, backslash),
            ),
            builder.icmp_unsigned("<", loaded, space),
        )
        return builder.bitcast(found, ir.IntType(LANES))

    return signature, generate


def _utf8_faults(typing: Any, data: Any, at: Any) -> Any:
    """Bytes of data[at:at + 32] that cannot follow the three before them, as bits of a uint32.

    By the table of well-formed sequences of the Unicode standard (3.9, table 3-7): as many
    continuation bytes after each lead byte as it asks for and nowhere else, no lead byte of
    an overlong form or beyond U+10FFFF, and after E0, ED, F0 and F4 only half of the
    continuation bytes. What the last three of the 32 ask for is left to the next call.
    `data` is a uint8 array, read from `at - 3` on without a bounds check.
    """
    signature = types.uint32(data, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        vector = ir.VectorType(ir.IntType(8), LANES)

        def before(distance: int) -> Any:
            first = builder.sub(arguments[1], ir.Constant(ir.IntType(64), distance))
            place = builder.bitcast(builder.gep(array.data, [first]), vector.as_pointer())
            return builder.load(place, align=1)

        def test(left: Any, relation: str, byte: int) -> Any:
            return builder.icmp_unsigned(relation, left, ir.Constant(vector, [byte] * LANES))

        byte, one, two, three = (before(distance) for distance in range(4))
        high, low = (ir.Constant(vector, [value] * LANES) for value in (0xC0, 0x80))
        follows = builder.icmp_unsigned("==", builder.and_(byte, high), low)
        due = reduce(
            builder.or_, [test(one, ">=", 0xC0), test(two, ">=", 0xE0), test(three, ">=", 0xF0)]
        )
        faults = [
            builder.xor(follows, due),
            test(byte, "==", 0xC0),
            test(byte, "==", 0xC1),
            test(byte, ">=", 0xF5),
            builder.and_(test(one, "==", 0xE0), test(byte, "<", 0xA0)),
            builder.and_(test(one, "==", 0xED), test(byte, ">=", 0xA0)),
            builder.and_(test(one, "==", 0xF0), test(byte, "<", 0x90)),
            builder.and_(test(one, "==", 0xF4), test(byte, ">=", 0x90)),
        ]
        return builder.bitcast(reduce(builder.or_, faults), ir.IntType(LANES))

    return signature, generate


def _text_masks(typing: Any, data: Any, at: Any) -> Any:
    """Which bytes of data[at:at + 64] are what, bit i for byte i, as six uint64.

    ASCII letters, ASCII digits, ASCII white space, spaces, apostrophes, and bytes beyond ASCII.
    `data` is a uint8 array or pointer; no bounds check.
    """
    signature = types.UniTuple(types.uint64, 6)(data, types.int64)  # type: ignore[no-untyped-call]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arguments[0]
        if isinstance(signature.args[0], types.Array):
            data = context.make_array(signature.args[0])(context, builder, data).data
        vector, word = ir.VectorType(ir.IntType(8), LANES), ir.IntType(64)

        def every(byte: int) -> Any:
            return ir.Constant(vector, [byte] * LANES)

        def sets(first: int) -> list[Any]:
            begin = builder.add(arguments[1], ir.Constant(word, first))
            place = builder.bitcast(builder.gep(data, [begin]), vector.as_pointer())
            bytes_ = builder.load(place, align=1)
            lower = builder.or_(bytes_, every(0x20))
            tests = [
                builder.icmp_unsigned("<", builder.sub(lower, every(97)), every(26)),
                builder.icmp_unsigned("<", builder.sub(bytes_, every(48)), every(10)),
                builder.icmp_unsigned("<", builder.sub(bytes_, every(9)), every(5)),
                builder.icmp_unsigned("==", bytes_, every(32)),
                builder.icmp_unsigned("==", bytes_, every(39)),
                builder.icmp_signed("<", bytes_, every(0)),
            ]
            return [builder.zext(builder.bitcast(test, ir.IntType(LANES)), word) for test in tests]

        found = [
            builder.or_(low, builder.shl(high, ir.Constant(word, LANES)))
            for low, high in zip(sets(0), sets(LANES), strict=True)
        ]
        found[2] = builder.or_(found[2], found[3])
        return context.make_tuple(builder, signature.return_type, found)

    return signature, generate


# Within a kernel they are called without the typing context: nothing to check a call against.
load64: Any = intrinsic(_load64)
trailing_zeros: Any = intrinsic(_trailing_zeros)
leading_zeros: Any = intrinsic(_leading_zeros)
choose: Any = intrinsic(_choose)
highest8: Any = intrinsic(_highest8)
value_of: Any = intrinsic(_value_of)
load_acquire: Any = intrinsic(_load_acquire)
store_release: Any = intrinsic(_store_release)
prefetch: Any = intrinsic(_prefetch)
copy_until: Any = intrinsic(_copy_until)
utf8_faults: Any = intrinsic(_utf8_faults)
text_masks: Any = intrinsic(_text_masks)

# Kernels run as plain Python, for coverage and debugging.
if config.DISABLE_JIT:  # type: ignore[attr-defined]  # made at run time
    load64 = bits_plain.load64
    trailing_zeros = bits_plain.trailing_zeros
    leading_zeros = bits_plain.leading_zeros
    choose = bits_plain.choose
    highest8 = bits_plain.highest8
    value_of = bits_plain.value_of
    load_acquire = bits_plain.load_acquire
    store_release = bits_plain.store_release
    prefetch = bits_plain.prefetch
    copy_until = bits_plain.copy_until
    utf8_faults = bits_plain.utf8_faults
    text_masks = bits_plain.text_masks
