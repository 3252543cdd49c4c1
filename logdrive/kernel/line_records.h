/* Lines of a file -> full records: `line_frames` and `line_events` of plain.py.
 *
 * Sixteen or 64 bytes at a time, by the vector types of GCC and Clang, which every processor has or
 * gets made of others. Part of loops.c, whose put functions it uses.
 */
#ifndef LOGDRIVE_LINE_RECORDS_H
#define LOGDRIVE_LINE_RECORDS_H

#include "line_scan.h"

/* Return a bit for each of the WIDE bytes at *at* that has to be escaped, the first one lowest. */
static uint64_t
escaped_bits(const unsigned char *at)
{
    uint64_t bits = 0;
    for (int i = 0; i < WIDE; i += BLOCK)
        bits |= bits_of(escaped_in(load_block(at + i))) << i;
    return bits;
}

/* Put WIDE bytes, of which those that are too many are written over later. */
static void
put_wide(unsigned char *to, const unsigned char *from)
{
    for (int i = 0; i < WIDE; i += BLOCK)
        memcpy(to + i, from + i, BLOCK);
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
    for (; end - at >= 2 * WIDE && limit - out >= WIDE * LONG_ESCAPE + WIDE; at += WIDE) {
        int done = 0; /* bytes of the block that are put */
        /* always a whole block: how many bytes it is to the next escape can't be foretold */
        put_wide(out, at);
        for (uint64_t escaped = escaped_bits(at); escaped != 0; escaped &= escaped - 1) {
            int next = __builtin_ctzll(escaped);
            out += next - done;
            done = next + 1;
            if (at[next] == '\n') {
                *from = at + done;
                *to = out;
                return 1;
            }
            out = put_escape(out, at[next]);
            put_wide(out, at + done);
        }
        out += WIDE - done;
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
