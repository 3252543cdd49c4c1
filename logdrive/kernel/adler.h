/* The Adler-32 of zlib streams (RFC 1950): `adler32` of plain.py. Part of loops.c.
 *
 * Two sums, both modulo 65521: of all bytes and 1, and of all values that the first one ever has.
 * LANES_32 bytes at a time are added to as many sums, by the vector types of GCC and Clang.
 */
#ifndef LOGDRIVE_ADLER_H
#define LOGDRIVE_ADLER_H

#define ADLER_MODULUS 65521u
#define LANES_32 32
#define ADLER_ROUNDS 16 /* a lane of 16 bits holds the sums of so many: 34,680 at most */
#define ADLER_BLOCK (LANES_32 * ADLER_ROUNDS)
#define ADLER_BLOCKS 256 /* a lane of 32 bits holds those of so many: 2,139,617,280 at most */

typedef unsigned char bytes_32 __attribute__((vector_size(LANES_32)));
typedef uint16_t words_32 __attribute__((vector_size(LANES_32 * 2)));
typedef uint32_t sums_32 __attribute__((vector_size(LANES_32 * 4)));

/* Add *blocks* blocks to the two sums of *adler*. */
static inline __attribute__((always_inline)) uint32_t
added_blocks(const unsigned char *at, Py_ssize_t blocks, uint32_t adler)
{
    sums_32 bytes = {0}, values = {0};
    for (Py_ssize_t block = 0; block < blocks; block++) {
        words_32 few_bytes = {0}, few_values = {0};
        for (int i = 0; i < ADLER_ROUNDS; i++, at += LANES_32) {
            bytes_32 read;
            memcpy(&read, at, LANES_32);
            few_bytes += __builtin_convertvector(read, words_32);
            few_values += few_bytes;
        }
        values += bytes * ADLER_ROUNDS + __builtin_convertvector(few_values, sums_32);
        bytes += __builtin_convertvector(few_bytes, sums_32);
    }

    uint64_t low = adler & 0xFFFF, high = adler >> 16;
    high += low * (uint64_t)(blocks * ADLER_BLOCK);
    for (unsigned int lane = 0; lane < LANES_32; lane++) {
        low += bytes[lane];
        /* a byte counts for itself and for all after it, but for none before it in its round */
        high += (uint64_t)values[lane] * LANES_32 - (uint64_t)bytes[lane] * lane;
    }
    return (uint32_t)(high % ADLER_MODULUS) << 16 | (uint32_t)(low % ADLER_MODULUS);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint32_t
added_blocks_avx2(const unsigned char *at, Py_ssize_t blocks, uint32_t adler)
{
    return added_blocks(at, blocks, adler);
}
#endif

static uint32_t
added_blocks_here(const unsigned char *at, Py_ssize_t blocks, uint32_t adler)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return added_blocks_avx2(at, blocks, adler);
#endif
    return added_blocks(at, blocks, adler);
}

PyDoc_STRVAR(adler32_doc, "As `plain.adler32`.");

static PyObject *
adler32(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    unsigned int adler;
    if (!PyArg_ParseTuple(args, "y*I", &data, &adler))
        return NULL;
    const unsigned char *at = data.buf, *end = at + data.len;
    while (end - at >= ADLER_BLOCK) {
        Py_ssize_t blocks = (end - at) / ADLER_BLOCK;
        if (blocks > ADLER_BLOCKS)
            blocks = ADLER_BLOCKS;
        adler = added_blocks_here(at, blocks, adler);
        at += blocks * ADLER_BLOCK;
    }
    uint32_t low = adler & 0xFFFF, high = adler >> 16;
    for (; at < end; at++) {
        low += *at;
        high += low; /* fewer than ADLER_BLOCK bytes: far from 2^32 */
    }
    PyBuffer_Release(&data);
    high %= ADLER_MODULUS;
    return PyLong_FromUnsignedLong((unsigned long)high << 16 | low % ADLER_MODULUS);
}

#endif
