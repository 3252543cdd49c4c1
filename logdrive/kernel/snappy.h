/* Snappy's format (google/snappy, format_description.txt), written for log lines: the bytes of a text as literals, and as copies of
 * what came up to 64 KiB before.
 *
 * A match has eight bytes or more, is looked for at every fourth byte, at two of these at once, and then extended to both sides:
 * lines are alike in long stretches, so that this finds nearly all that a search at each byte finds. Part of page_loops.c.
 */
#ifndef LOGDRIVE_SNAPPY_H
#define LOGDRIVE_SNAPPY_H

#include <stdint.h>
#include <string.h>

#define SNAPPY_SPARE 128     /* bytes that the output may need beyond those of the input */
#define SNAPPY_PADDING 64    /* bytes behind the input that are read, whatever they are */
#define SNAPPY_FARTHEST 65535 /* back to what a copy reaches here: what two bytes can say */

#define HASH_BITS 13
#define WORD 8  /* bytes that a match has at least */
#define STEP 4  /* from one place that is looked at to the next */
#define MISSES 9 /* log2 of the bytes without a match after which steps become longer */

static inline uint64_t
word_at(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint32_t
hash_of(uint64_t word)
{
    return (uint32_t)((word * 0xCF1BBCDCB7A56463u) >> (64 - HASH_BITS));
}

/* Write *size* bytes of *from* as a literal; return where the output goes on. Up to 64 bytes of both are touched. */
static inline unsigned char *
put_literal(unsigned char *out, const unsigned char *from, size_t size)
{
    size_t less = size - 1;
    if (less < 60) {
        *out++ = (unsigned char)(less << 2);
        memcpy(out, from, 16);
        if (size > 16) {
            memcpy(out + 16, from + 16, 16);
            memcpy(out + 32, from + 32, 32);
        }
        return out + size;
    }
    int bytes = less < 1u << 8 ? 1 : less < 1u << 16 ? 2 : less < 1u << 24 ? 3 : 4;
    *out++ = (unsigned char)((59 + bytes) << 2);
    for (int i = 0; i < bytes; i++)
        *out++ = (unsigned char)(less >> (8 * i));
    memcpy(out, from, size);
    return out + size;
}

/* Write a copy of *size* bytes from *distance* before; return where the output goes on. */
static inline unsigned char *
put_copy(unsigned char *out, size_t distance, size_t size)
{
    while (size > 64) { /* what is left is never shorter than the four bytes of a short copy */
        size_t part = size < 68 ? 60 : 64;
        *out++ = (unsigned char)((part - 1) << 2 | 2);
        *out++ = (unsigned char)distance;
        *out++ = (unsigned char)(distance >> 8);
        size -= part;
    }
    if (size < 12 && distance < 2048) {
        *out++ = (unsigned char)(distance >> 8 << 5 | (size - 4) << 2 | 1);
        *out++ = (unsigned char)distance;
        return out;
    }
    *out++ = (unsigned char)((size - 1) << 2 | 2);
    *out++ = (unsigned char)distance;
    *out++ = (unsigned char)(distance >> 8);
    return out;
}

/* Return how many bytes from *at* on, up to *size*, are those from *before* on. */
static inline size_t
same_after(const unsigned char *in, size_t size, size_t at, size_t before)
{
    size_t same = 0;
    while (at + same + WORD <= size) {
        uint64_t other = word_at(in + at + same) ^ word_at(in + before + same);
        if (other)
            return same + (size_t)(__builtin_ctzll(other) >> 3);
        same += WORD;
    }
    while (at + same < size && in[at + same] == in[before + same])
        same++;
    return same;
}

/* Return how many bytes before *at*, at most *most*, are those before *before*. */
static inline size_t
same_before(const unsigned char *in, size_t at, size_t before, size_t most)
{
    size_t same = 0;
    if (most > before)
        most = before;
    while (same + WORD <= most) {
        uint64_t other = word_at(in + at - same - WORD) ^ word_at(in + before - same - WORD);
        if (other)
            return same + (size_t)(__builtin_clzll(other) >> 3);
        same += WORD;
    }
    while (same < most && in[at - same - 1] == in[before - same - 1])
        same++;
    return same;
}

/* Write *size* bytes of *in*, at most 4 GiB, compressed to *out*; return how many bytes that are.
 *
 * A literal before a copy costs five bytes at most, and a copy three for each 64 bytes and the rest; as a match has eight bytes or
 * more, only the length in front and the last literal add to the size: ten bytes at most.
 */
static size_t
compress_snappy(const unsigned char *in, size_t size, unsigned char *out)
{
    uint32_t places[1 << HASH_BITS] = {0}; /* by hash, where such bytes were seen last */
    unsigned char *begin = out;
    size_t at = 1, written = 0; /* bytes of the input */
    for (size_t rest = size;; rest >>= 7) {
        *out++ = (unsigned char)(rest < 128 ? rest : rest | 128);
        if (rest < 128)
            break;
    }
    while (at + STEP + WORD <= size) {
        uint64_t first = word_at(in + at), second = word_at(in + at + STEP);
        uint32_t first_hash = hash_of(first), second_hash = hash_of(second);
        size_t before = places[first_hash];
        places[first_hash] = (uint32_t)at;
        size_t second_before = places[second_hash];
        places[second_hash] = (uint32_t)(at + STEP);
        int found = first == word_at(in + before);
        if (!found & (second != word_at(in + second_before))) { /* one branch for both: it is the one that is hard to tell */
            at += 2 * STEP + ((at - written) >> MISSES);
            continue;
        }
        if (!found) {
            before = second_before;
            at += STEP;
        }
        if (at - before > SNAPPY_FARTHEST) {
            at += found ? 2 * STEP : STEP;
            continue;
        }
        size_t after = WORD + same_after(in, size, at + WORD, before + WORD);
        size_t back = same_before(in, at, before, at - written);
        if (at - back > written)
            out = put_literal(out, in + written, at - back - written);
        out = put_copy(out, at - before, back + after);
        at += after;
        written = at;
        if (at + WORD <= size) { /* the search has stepped over the end of the match, where the next ones often begin */
            places[hash_of(word_at(in + at - 3))] = (uint32_t)(at - 3);
            places[hash_of(word_at(in + at - 1))] = (uint32_t)(at - 1);
        }
    }
    if (written < size)
        out = put_literal(out, in + written, size - written);
    return (size_t)(out - begin);
}

#endif
