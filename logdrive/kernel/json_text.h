/* Readers: a JSON string -> its text in UTF-8, `json_text` of text_plain.py (RFC 8259, section 7).
 *
 * By the vector types of GCC and Clang, which every processor has or gets
 * made of others. Part of text_loops.c, whose `is_utf8` it uses.
 */
#ifndef LOGDRIVE_JSON_TEXT_H
#define LOGDRIVE_JSON_TEXT_H

#define BLOCK 16
#define LEAD_SURROGATE 0xD800u
#define TRAIL_SURROGATE 0xDC00u
#define AFTER_SURROGATES 0xE000u

typedef unsigned char block __attribute__((vector_size(BLOCK)));

/* Return a bit for each byte of *text* that does not stand for itself: a quote, a backslash, a control. */
static uint32_t
special_in(block text)
{
    block special = (block)((text == (unsigned char)'"') | (text == (unsigned char)'\\') | (text < 0x20));
#ifdef __SSE2__
    typedef char lanes __attribute__((vector_size(BLOCK)));
    return (uint32_t)__builtin_ia32_pmovmskb128((lanes)special);
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < BLOCK; lane++)
        bits |= (uint32_t)(special[lane] & 1) << lane;
    return bits;
#endif
}

/* Copy two blocks from *from* to *to*; return how many of their bytes come before the first that is special. */
static int
copy_clean(unsigned char *to, const unsigned char *from)
{
    block first, second;
    memcpy(&first, from, BLOCK);
    memcpy(&second, from + BLOCK, BLOCK);
    memcpy(to, &first, BLOCK);
    memcpy(to + BLOCK, &second, BLOCK);
    uint32_t special = special_in(first) | special_in(second) << BLOCK;
    return special == 0 ? 2 * BLOCK : __builtin_ctz(special);
}

/* Return the number that four hexadecimal digits at *at* make, -1 if they are not four up to *end*. */
static int32_t
four_digits(const unsigned char *at, const unsigned char *end)
{
    int32_t value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        unsigned char digit = at[i], letter = digit | 0x20;
        if (digit >= '0' && digit <= '9')
            value = value * 16 + (digit - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value * 16 + (letter - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* Put the character *code* to *to* in UTF-8, and return the place behind it; at most four bytes. */
static unsigned char *
put_character(unsigned char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (unsigned char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (unsigned char)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (unsigned char)(0xE0 | code >> 12);
        } else {
            *to++ = (unsigned char)(0xF0 | code >> 18);
            *to++ = (unsigned char)(0x80 | (code >> 12 & 0x3F));
        }
        *to++ = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    }
    *to++ = (unsigned char)(0x80 | (code & 0x3F));
    return to;
}

/* Put the character whose escape begins at *from*, a backslash, to *to*, and move both behind it.
 * What is put is shorter than its escape. Return 0 if it is no escape.
 */
static int
put_escaped(unsigned char **to, const unsigned char **from, const unsigned char *end)
{
    static const unsigned char meant[256] = {['"'] = '"', ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                             ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    const unsigned char *at = *from + 1;
    if (at == end)
        return 0;
    if (meant[*at] != 0) {
        *(*to)++ = meant[*at];
        *from = at + 1;
        return 1;
    }
    if (*at != 'u')
        return 0;
    int32_t code = four_digits(at + 1, end);
    if (code < 0)
        return 0;
    at += 5;
    uint32_t character = (uint32_t)code;
    if (character >= LEAD_SURROGATE && character < AFTER_SURROGATES) {
        if (character >= TRAIL_SURROGATE || end - at < 2 || at[0] != '\\' || at[1] != 'u')
            return 0;
        int32_t trail = four_digits(at + 2, end);
        if (trail < (int32_t)TRAIL_SURROGATE || trail >= (int32_t)AFTER_SURROGATES)
            return 0;
        at += 6;
        character = 0x10000 + ((character - LEAD_SURROGATE) << 10) + ((uint32_t)trail - TRAIL_SURROGATE);
    }
    *to = put_character(*to, character);
    *from = at;
    return 1;
}

/* Put the text of the string whose quotes stand before *at* and at *end* to *to*, which has room for
 * as many bytes. Return how many there were, -1 if it is no string.
 */
static Py_ssize_t
put_text(unsigned char *to, const unsigned char *at, const unsigned char *end)
{
    unsigned char *out = to;
    while (at < end) {
        /* what is put is never longer than what was read: there is room for blocks, too */
        if (end - at >= 2 * BLOCK) {
            int clean = copy_clean(out, at);
            at += clean;
            out += clean;
            if (clean == 2 * BLOCK)
                continue;
        }
        if (*at == '\\') {
            if (!put_escaped(&out, &at, end))
                return -1;
        } else if (*at == '"' || *at < 0x20) {
            return -1;
        } else {
            *out++ = *at++;
        }
    }
    return out - to;
}

PyDoc_STRVAR(json_text_doc, "As `text_plain.json_text`.");

static PyObject *
json_text(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(args, "y*nn", &data, &begin, &end))
        return NULL;
    PyObject *text = NULL;
    unsigned char *room = NULL;
    const unsigned char *bytes = data.buf;
    if (begin < 0 || end > data.len || end - begin < 2 || bytes[begin] != '"' || bytes[end - 1] != '"')
        goto no_string;
    room = PyMem_Malloc((size_t)(end - begin));
    if (room == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t size = put_text(room, bytes + begin + 1, bytes + end - 1);
    /* an escape is a whole character, so the text is UTF-8 if and only if the string was */
    if (size < 0 || (survey_lines(room, size).high && !is_utf8(room, room + size)))
        goto no_string;
    text = PyBytes_FromStringAndSize((const char *)room, size);
    goto done;
no_string:
    PyErr_SetString(PyExc_ValueError, "no JSON string there");
done:
    PyMem_Free(room);
    PyBuffer_Release(&data);
    return text;
}

#endif
