/* The checksums of Iggy's messages: CRC-32 (of zlib), and XXH3 with 64 bits, seed 0, in one go.
 *
 * XXH3 is written from its published specification; tests compare it with the package xxhash. It is
 * specified for each range of lengths: up to 128 bytes, up to 240, and longer ones in stripes of 64.
 */
#ifndef LOGDRIVE_IGGY_SUMS_H
#define LOGDRIVE_IGGY_SUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !defined(__SIZEOF_INT128__)
#error "only for little-endian machines with 128-bit arithmetic: the loops in Python are used"
#endif

static uint32_t
load_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static uint64_t
load_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

/* CRC-32: eight bytes at a time, with a table for each ----------------------------------------*/

static uint32_t crc_tables[8][256];

static void
fill_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = before >> 8 ^ crc_tables[0][before & 0xFF];
        }
}

static uint32_t
crc_32(const unsigned char *at, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word = load_u64(at) ^ crc;
        crc = 0;
        for (int byte = 0; byte < 8; byte++)
            crc ^= crc_tables[7 - byte][word >> 8 * byte & 0xFF];
    }
    for (; size > 0; size--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *at++) & 0xFF];
    return ~crc;
}

/* XXH3 -----------------------------------------------------------------------------------------*/

#define P32_1 0x9E3779B1u
#define P32_2 0x85EBCA77u
#define P32_3 0xC2B2AE3Du
#define P64_1 0x9E3779B185EBCA87u
#define P64_2 0xC2B2AE3D27D4EB4Fu
#define P64_3 0x165667B19E3779F9u
#define P64_4 0x85EBCA77C2B2AE63u
#define P64_5 0x27D4EB2F165667C5u
#define MIX_1 0x165667919E3779F9u

#define STRIPE 64
#define BLOCK_STRIPES 16 /* the secret moves on by 8 bytes with each stripe */
#define BLOCK (STRIPE * BLOCK_STRIPES)
#define SECRET_BYTES 192

static const unsigned char SECRET[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static uint64_t
folded_product(uint64_t one, uint64_t other)
{
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t
avalanche(uint64_t hash)
{
    hash ^= hash >> 37;
    hash *= MIX_1;
    return hash ^ hash >> 32;
}

static uint64_t
mixed_16(const unsigned char *at, int secret)
{
    return folded_product(load_u64(at) ^ load_u64(SECRET + secret), load_u64(at + 8) ^ load_u64(SECRET + secret + 8));
}

static uint64_t
xxh3_up_to_240(const unsigned char *at, size_t size)
{
    uint64_t hash = size * P64_1;
    const unsigned char *end = at + size;
    if (size <= 128) {
        for (int pair = (int)(size - 1) / 32; pair >= 0; pair--)
            hash += mixed_16(at + 16 * pair, 32 * pair) + mixed_16(end - 16 * (pair + 1), 32 * pair + 16);
        return avalanche(hash);
    }
    for (int part = 0; part < 8; part++)
        hash += mixed_16(at + 16 * part, 16 * part);
    hash = avalanche(hash);
    for (int part = 8; part < (int)(size / 16); part++)
        hash += mixed_16(at + 16 * part, 16 * (part - 8) + 3);
    return avalanche(hash + mixed_16(end - 16, 119));
}

static void
add_stripe(uint64_t sums[8], const unsigned char *at, int secret)
{
    for (int lane = 0; lane < 8; lane++) {
        uint64_t word = load_u64(at + 8 * lane), key = word ^ load_u64(SECRET + secret + 8 * lane);
        sums[lane ^ 1] += word;
        sums[lane] += (key & 0xFFFFFFFFu) * (key >> 32);
    }
}

static uint64_t
xxh3_long(const unsigned char *at, size_t size)
{
    uint64_t sums[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    const unsigned char *end = at + size;
    while (end - at > BLOCK) {
        for (int stripe = 0; stripe < BLOCK_STRIPES; stripe++, at += STRIPE)
            add_stripe(sums, at, 8 * stripe);
        for (int lane = 0; lane < 8; lane++) {
            sums[lane] ^= sums[lane] >> 47 ^ load_u64(SECRET + SECRET_BYTES - STRIPE + 8 * lane);
            sums[lane] *= P32_1;
        }
    }
    for (int stripe = 0; end - at > STRIPE; stripe++, at += STRIPE)
        add_stripe(sums, at, 8 * stripe);
    add_stripe(sums, end - STRIPE, SECRET_BYTES - STRIPE - 7);
    uint64_t hash = size * P64_1;
    for (int pair = 0; pair < 4; pair++)
        hash += folded_product(sums[2 * pair] ^ load_u64(SECRET + 11 + 16 * pair),
                               sums[2 * pair + 1] ^ load_u64(SECRET + 19 + 16 * pair));
    return avalanche(hash);
}

/* Return the hash of *size* bytes, at least 17: no message has less. */
static uint64_t
xxh3(const unsigned char *at, size_t size)
{
    return size > 240 ? xxh3_long(at, size) : xxh3_up_to_240(at, size);
}

#endif
