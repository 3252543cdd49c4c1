/* Lines of a file measured, to be written as full records: `scan_lines` of plain.py.
 *
 * Sixteen or 64 bytes at a time, by the vector types of GCC and Clang, which every processor has or
 * gets made of others. Part of loops.c.
 */
#ifndef LOGDRIVE_LINE_SCAN_H
#define LOGDRIVE_LINE_SCAN_H

#define BLOCK 16
#define WIDE 64 /* bytes of which a number has a bit each */
#define LONG_ESCAPE 6 /* \u0000, of controls that have no short one */
#define SHORT_CONTROLS 0x3700u /* a bit for each of \b \t \n \f \r, whose escapes have two bytes */

typedef unsigned char block __attribute__((vector_size(BLOCK)));

static block
load_block(const unsigned char *at)
{
    block text;
    memcpy(&text, at, BLOCK);
    return text;
}

/* Return 0xFF where a byte has to be escaped in JSON: quote, backslash, control (newlines, too). */
static block
escaped_in(block text)
{
    return (block)((text == (unsigned char)'"') | (text == (unsigned char)'\\') | (text < 0x20));
}

static int
is_escaped(unsigned char byte)
{
    return byte == '"' || byte == '\\' || byte < 0x20;
}

static int
escaped_size(unsigned char byte)
{
    if (!is_escaped(byte))
        return 1;
    return byte >= 0x20 || SHORT_CONTROLS >> byte & 1 ? 2 : LONG_ESCAPE;
}

/* Return a bit for each of the BLOCK bytes of *flags*, each 0xFF or 0; the first one is lowest. */
static uint64_t
bits_of(block flags)
{
#if defined(__SSE2__)
    typedef char signed_block __attribute__((vector_size(BLOCK)));
    return (uint64_t)(uint32_t)__builtin_ia32_pmovmskb128((signed_block)flags);
#else
    uint64_t bits = 0, half[2];
    memcpy(half, &flags, BLOCK);
    for (int i = 0; i < 2; i++) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        half[i] = __builtin_bswap64(half[i]);
#endif
        /* gathers the lowest bit of each byte in the highest byte */
        bits |= ((half[i] & 0x0101010101010101u) * 0x0102040810204080u >> 56) << (8 * i);
    }
    return bits;
#endif
}

/* Return how many controls have the long escape; -1 if a line ends with CR LF. */
static Py_ssize_t
long_escapes(const unsigned char *at, const unsigned char *end)
{
    Py_ssize_t count = 0;
    for (; at < end; at++) {
        if (at[0] == '\r' && end - at > 1 && at[1] == '\n')
            return -1;
        count += escaped_size(*at) == LONG_ESCAPE;
    }
    return count;
}

/* Return 1 if the text is UTF-8, 0 if not, -1 with an exception set. */
static int
is_utf8(const unsigned char *at, Py_ssize_t length)
{
    PyObject *text = PyUnicode_DecodeUTF8((const char *)at, length, NULL);
    if (text == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(text);
    return 1;
}

/* Powers of ten: TENS[n] is the first number with more than n digits. */
static const uint64_t TENS[DIGITS] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u,
    10000000000u, 100000000000u, 1000000000000u, 10000000000000u, 100000000000000u,
    1000000000000000u, 10000000000000000u, 100000000000000000u, 1000000000000000000u,
    10000000000000000000u,
};

static int
decimal_digits(uint64_t value)
{
    int digits = 1;
    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

/* The lines that are measured, and the one that is being measured. */
struct scan {
    const unsigned char *line;  /* where that one begins */
    uint64_t position;          /* the same in the file */
    int width;                  /* digits of this position in decimal */
    Py_ssize_t begun;           /* its bytes so far that are escaped in JSON */
    Py_ssize_t count, digits;   /* lines before it, digits of their positions */
    Py_ssize_t escaped;         /* their bytes that are escaped, newlines among them */
    int controls, high;         /* whether there may be controls but newlines, and bytes over 127 */
};

/* End the line that is being measured at its *newline*. Return 0 if it is too long. */
static inline int
end_line(struct scan *scan, const unsigned char *newline, Py_ssize_t longest)
{
    if (newline - scan->line >= longest)
        return 0;
    scan->digits += scan->width;
    scan->position += (uint64_t)(newline + 1 - scan->line);
    scan->line = newline + 1;
    scan->escaped += scan->begun;
    scan->begun = 0;
    scan->count++;
    /* positions of lines that follow one another seldom differ in their digits */
    if (scan->width < DIGITS && scan->position >= TENS[scan->width])
        scan->width = decimal_digits(scan->position);
    return 1;
}

static inline __attribute__((always_inline)) void
scan_in_blocks(struct scan *scan, const unsigned char *stop, Py_ssize_t most, Py_ssize_t longest)
{
    const unsigned char *at = scan->line;
    block controls = {0}, high = {0};
    for (; stop - at >= WIDE; at += WIDE) {
        uint64_t escaped = 0, newlines = 0;
        for (int i = 0; i < WIDE; i += BLOCK) {
            block text = load_block(at + i), newline = (block)(text == (unsigned char)'\n');
            escaped |= bits_of(escaped_in(text)) << i;
            newlines |= bits_of(newline) << i;
            controls |= (block)(text < 0x20) & ~newline;
            high |= text;
        }
        for (; newlines != 0; newlines &= newlines - 1) {
            uint64_t through = newlines ^ (newlines - 1); /* the bits up to the first newline's */
            scan->begun += __builtin_popcountll(escaped & through);
            escaped &= ~through;
            if (!end_line(scan, at + __builtin_ctzll(newlines), longest) || scan->count == most)
                goto done;
        }
        scan->begun += __builtin_popcountll(escaped);
    }
    for (; at < stop; at++) {
        scan->begun += is_escaped(*at);
        scan->high |= *at & 0x80;
        if (*at != '\n')
            scan->controls |= *at < 0x20;
        else if (!end_line(scan, at, longest) || scan->count == most)
            break;
    }
done:
    for (int lane = 0; lane < BLOCK; lane++) {
        scan->controls |= controls[lane];
        scan->high |= high[lane] & 0x80;
    }
}

static void
scan_anywhere(struct scan *scan, const unsigned char *stop, Py_ssize_t most, Py_ssize_t longest)
{
    scan_in_blocks(scan, stop, most, longest);
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
__attribute__((target("avx2,popcnt"))) static void
scan_with_avx2(struct scan *scan, const unsigned char *stop, Py_ssize_t most, Py_ssize_t longest)
{
    scan_in_blocks(scan, stop, most, longest);
}

static void
scan_up_to(struct scan *scan, const unsigned char *stop, Py_ssize_t most, Py_ssize_t longest)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"))
        scan_with_avx2(scan, stop, most, longest);
    else
        scan_anywhere(scan, stop, most, longest);
}
#else
static void
scan_up_to(struct scan *scan, const unsigned char *stop, Py_ssize_t most, Py_ssize_t longest)
{
    scan_anywhere(scan, stop, most, longest);
}
#endif

PyDoc_STRVAR(scan_lines_doc, "As `plain.scan_lines`.");

static PyObject *
scan_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, end, most, longest;
    unsigned long long start;
    if (!PyArg_ParseTuple(args, "y*nnKnn", &data, &at, &end, &start, &most, &longest))
        return NULL;
    PyObject *result = NULL;
    if (at < 0 || end < at || end > data.len || most < 1) {
        PyErr_SetString(PyExc_ValueError, "no lines there");
        goto done;
    }
    const unsigned char *text = (const unsigned char *)data.buf + at;
    struct scan scan = {.line = text, .position = start, .width = decimal_digits(start)};
    scan_up_to(&scan, text + (end - at), most, longest);

    Py_ssize_t written = -1, length = scan.line - text, longer = 0;
    if (scan.controls)
        longer = long_escapes(text, scan.line);
    int plain = longer < 0 ? 0 : scan.high ? is_utf8(text, length) : 1;
    if (plain < 0)
        goto done;
    /* each newline counts as escaped, and is left out with its escape */
    if (plain)
        written = scan.digits + length + scan.escaped - 2 * scan.count + (LONG_ESCAPE - 2) * longer;
    result = Py_BuildValue("nnn", scan.count, length, written);
done:
    PyBuffer_Release(&data);
    return result;
}

#endif
