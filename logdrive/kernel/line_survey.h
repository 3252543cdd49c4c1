/* How many newlines there are in a text, whether a CR, and whether all of its bytes are ASCII.
 *
 * The compiler makes vectors of the lanes; where it can, for AVX2 too, which is taken if the
 * processor has it. Part of loops.c and text_loops.c.
 */
#ifndef LOGDRIVE_LINE_SURVEY_H
#define LOGDRIVE_LINE_SURVEY_H

#define LANES 64   /* bytes that are compared at once, in as many counters */
#define ROUNDS 255 /* after which a counter is full */

#if defined(__GNUC__) && !defined(__clang__)
#define IN_LANES __attribute__((optimize("O3"))) /* for the lanes to become vectors */
#else
#define IN_LANES
#endif

struct survey {
    Py_ssize_t newlines;
    int returns; /* any CR */
    int high;    /* any byte over 127 */
};

static inline __attribute__((always_inline)) struct survey
survey_in_lanes(const unsigned char *at, Py_ssize_t size)
{
    struct survey survey = {0, 0, 0};
    unsigned char high = 0, returns = 0;
    while (size >= LANES) {
        unsigned char lanes[LANES] = {0}, bytes[LANES] = {0}, crs[LANES] = {0};
        Py_ssize_t rounds = size / LANES < ROUNDS ? size / LANES : ROUNDS;
        for (Py_ssize_t round = 0; round < rounds; round++, at += LANES)
            for (int i = 0; i < LANES; i++) {
                lanes[i] = (unsigned char)(lanes[i] + (at[i] == '\n'));
                bytes[i] |= at[i];
                crs[i] |= (unsigned char)(at[i] == '\r');
            }
        for (int i = 0; i < LANES; i++) {
            survey.newlines += lanes[i];
            high |= bytes[i];
            returns |= crs[i];
        }
        size -= rounds * LANES;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        survey.newlines += at[i] == '\n';
        high |= at[i];
        returns |= at[i] == '\r';
    }
    survey.returns = returns;
    survey.high = (high & 0x80) != 0;
    return survey;
}

IN_LANES static struct survey
survey_anywhere(const unsigned char *at, Py_ssize_t size)
{
    return survey_in_lanes(at, size);
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
__attribute__((target("avx2"))) IN_LANES static struct survey
survey_with_avx2(const unsigned char *at, Py_ssize_t size)
{
    return survey_in_lanes(at, size);
}

static struct survey
survey_lines(const unsigned char *at, Py_ssize_t size)
{
    return __builtin_cpu_supports("avx2") ? survey_with_avx2(at, size) : survey_anywhere(at, size);
}
#else
static struct survey
survey_lines(const unsigned char *at, Py_ssize_t size)
{
    return survey_anywhere(at, size);
}
#endif

#endif
