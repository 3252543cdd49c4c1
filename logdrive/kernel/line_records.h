/* Lines of a file -> full records: `scan_lines`, `line_frames` and `line_events` of plain.py.
 *
 * Sixteen or 64 bytes at a time, by the vector types of GCC and Clang, which every processor has or
 * gets made of others. Part of loops.c, whose put functions it uses.
 */
#ifndef LOGDRIVE_LINE_RECORDS_H
#define LOGDRIVE_LINE_RECORDS_H

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

/* What lines contain: bytes that are escaped in JSON, controls among them; any byte over 127. */
struct tally {
    Py_ssize_t escaped, controls;
    int high;
};

static struct tally
tally_bytes(const unsigned char *at, const unsigned char *end)
{
    struct tally tally = {0, 0, 0};
    while (end - at >= BLOCK) {
        block escaped = {0}, controls = {0}, high = {0};
        /* a lane counts up to 255 */
        for (int i = 0; i < 255 && end - at >= BLOCK; i++, at += BLOCK) {
            block text = load_block(at);
            escaped -= escaped_in(text);
            controls -= (block)(text < 0x20);
            high |= text;
        }
        for (int lane = 0; lane < BLOCK; lane++) {
            tally.escaped += escaped[lane];
            tally.controls += controls[lane];
            tally.high |= high[lane] & 0x80;
        }
    }
    for (; at < end; at++) {
        tally.escaped += is_escaped(*at);
        tally.controls += *at < 0x20;
        tally.high |= *at & 0x80;
    }
    return tally;
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
    const unsigned char *line = text, *stop = text + (end - at), *newline;
    Py_ssize_t count = 0, digits = 0;
    uint64_t position = start;
    int width = decimal_digits(start);
    while (count < most && (newline = memchr(line, '\n', (size_t)(stop - line))) != NULL) {
        if (newline - line >= longest)
            break;
        digits += width;
        position += (uint64_t)(newline + 1 - line);
        line = newline + 1;
        count++;
        /* positions of lines that follow one another seldom differ in their digits */
        if (width < DIGITS && position >= TENS[width])
            width = decimal_digits(position);
    }

    Py_ssize_t written = -1, length = line - text, longer = 0;
    struct tally tally = tally_bytes(text, line);
    if (tally.controls > count)
        longer = long_escapes(text, line);
    int plain = longer < 0 ? 0 : tally.high ? is_utf8(text, length) : 1;
    if (plain < 0)
        goto done;
    /* each newline counts as escaped, and is left out with its escape */
    if (plain)
        written = digits + length + tally.escaped - 2 * count + (LONG_ESCAPE - 2) * longer;
    result = Py_BuildValue("nnn", count, length, written);
done:
    PyBuffer_Release(&data);
    return result;
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

/* Return a bit for each of the WIDE bytes at *at* that has to be escaped, the first one lowest. */
static uint64_t
escaped_bits(const unsigned char *at)
{
    uint64_t bits = 0;
    for (int i = 0; i < WIDE; i += BLOCK)
        bits |= bits_of(escaped_in(load_block(at + i))) << i;
    return bits;
}

/* Put *size* bytes, and up to BLOCK of those behind them, which are written over later. */
static unsigned char *
put_blocks(unsigned char *to, const unsigned char *from, Py_ssize_t size)
{
    for (Py_ssize_t i = 0; i < size; i += BLOCK)
        memcpy(to + i, from + i, BLOCK);
    return to + size;
}

/* Put the escape of *byte*, which is_escaped. */
static unsigned char *
put_escape(unsigned char *to, unsigned char byte)
{
    static const char short_escapes[] = "btn fr", hex[] = "0123456789abcdef";
    *to++ = '\\';
    if (byte >= 0x20) {
        *to++ = byte;
    } else if (SHORT_CONTROLS >> byte & 1) {
        *to++ = (unsigned char)short_escapes[byte - 8];
    } else {
        to = put(to, "u00", 3);
        *to++ = (unsigned char)hex[byte >> 4];
        *to++ = (unsigned char)hex[byte & 15];
    }
    return to;
}

/* Put one line, without its newline, to *to*, and move both behind it. Return 0 where there is no
 * newline before *end*, or the line takes more than there is up to *limit*.
 */
static int
put_line(unsigned char **to, const unsigned char *limit, const unsigned char **from,
         const unsigned char *end)
{
    const unsigned char *at = *from;
    unsigned char *out = *to;
    /* while a block fits whatever is in it, and what is read and written beyond it */
    for (; end - at >= WIDE + BLOCK && limit - out >= WIDE * LONG_ESCAPE + BLOCK; at += WIDE) {
        int done = 0; /* bytes of the block that are put */
        for (uint64_t escaped = escaped_bits(at); escaped != 0; escaped &= escaped - 1) {
            int next = __builtin_ctzll(escaped);
            out = put_blocks(out, at + done, next - done);
            done = next + 1;
            if (at[next] == '\n') {
                *from = at + done;
                *to = out;
                return 1;
            }
            out = put_escape(out, at[next]);
        }
        out = put_blocks(out, at + done, WIDE - done);
    }
    /* near an end, byte by byte */
    for (; at != end; at++) {
        if (*at == '\n') {
            *from = at + 1;
            *to = out;
            return 1;
        }
        if (limit - out < escaped_size(*at))
            return 0;
        if (is_escaped(*at))
            out = put_escape(out, *at);
        else
            *out++ = *at;
    }
    return 0;
}

/* What the records of some lines have in common, and the lines. */
struct records {
    Py_buffer prefix, middle, tail, data;
    Py_ssize_t count, at, end, written;
    unsigned long long start;
};

static void
release_records(struct records *records)
{
    PyBuffer_Release(&records->prefix);
    PyBuffer_Release(&records->middle);
    PyBuffer_Release(&records->tail);
    PyBuffer_Release(&records->data);
}

/* Put all records to *to*, which ends at *limit*: J frames numbered from *first*, or, where that is
 * NULL, Pravega events. Return 0 where the lines are not as many, or as long, as they should be.
 */
static int
put_records(const struct records *records, const uint32_t *first, unsigned char *to,
            const unsigned char *limit)
{
    const Py_buffer *prefix = &records->prefix, *middle = &records->middle, *tail = &records->tail;
    const unsigned char *text = (const unsigned char *)records->data.buf + records->at;
    const unsigned char *line = text, *end = text + (records->end - records->at);
    Py_ssize_t same = prefix->len + middle->len + tail->len;
    for (Py_ssize_t i = 0; i < records->count; i++) {
        unsigned char digits[DIGITS];
        Py_ssize_t size = put_decimal(digits, records->start + (uint64_t)(line - text)) - digits;
        if (limit - to < FRAME_HEAD + same + size - (first == NULL ? FRAME_HEAD - EVENT_HEAD : 0))
            return 0;
        if (first == NULL) {
            to = put_u32(to, 0);
        } else {
            to = put(to, "2J", 2);
            to = put_u32(to, *first + (uint32_t)i);
        }
        unsigned char *length = to;
        to = put(to + 4, prefix->buf, prefix->len);
        to = put(to, digits, size);
        to = put(to, middle->buf, middle->len);
        if (!put_line(&to, limit - tail->len, &line, end))
            return 0;
        to = put(to, tail->buf, tail->len);
        put_u32(length, (uint32_t)(to - length - 4));
    }
    return to == limit && line == end;
}

/* Return the records as bytes. */
static PyObject *
written_records(const struct records *records, const uint32_t *first)
{
    Py_ssize_t each = records->prefix.len + records->middle.len + records->tail.len
                      + (first == NULL ? EVENT_HEAD : FRAME_HEAD);
    /* the sum is compared before it is made: below 2^31 in all */
    if (records->at < 0 || records->end < records->at || records->end > records->data.len
        || records->count < 1 || records->written < 0 || records->written > INT32_MAX
        || each > INT32_MAX || records->count > (INT32_MAX - records->written) / each) {
        PyErr_SetString(PyExc_ValueError, "not as many lines as counted, or too long ones");
        return NULL;
    }
    Py_ssize_t size = records->count * each + records->written;
    PyObject *written = PyBytes_FromStringAndSize(NULL, size);
    if (written == NULL)
        return NULL;
    unsigned char *to = (unsigned char *)PyBytes_AsString(written);
    /* without letting go of the interpreter: it takes 0.1 ms, and to get it back may take longer */
    if (!put_records(records, first, to, to + size)) {
        Py_CLEAR(written);
        PyErr_SetString(PyExc_ValueError, "not as many lines as counted, or of another length");
    }
    return written;
}

PyDoc_STRVAR(line_frames_doc, "As `plain.line_frames`.");

static PyObject *
line_frames(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct records r;
    unsigned int first;
    if (!PyArg_ParseTuple(args, "Iny*y*y*y*nnKn", &first, &r.count, &r.prefix, &r.middle, &r.tail,
                          &r.data, &r.at, &r.end, &r.start, &r.written))
        return NULL;
    uint32_t number = first;
    PyObject *frames = written_records(&r, &number);
    release_records(&r);
    return frames;
}

PyDoc_STRVAR(line_events_doc, "As `plain.line_events`.");

static PyObject *
line_events(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct records r;
    if (!PyArg_ParseTuple(args, "ny*y*y*y*nnKn", &r.count, &r.prefix, &r.middle, &r.tail, &r.data,
                          &r.at, &r.end, &r.start, &r.written))
        return NULL;
    PyObject *events = written_records(&r, NULL);
    release_records(&r);
    return events;
}

#endif
