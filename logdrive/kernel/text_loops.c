/* The loops that run once a line of text, compiled: `logdrive.kernel._text_loops`. What each does is told in text_plain.py, whose
 * functions give the same, byte for byte; tests compare the two. What comes here may be hostile: every place is compared with
 * what is there before a byte of it is read, and nothing is written that was not counted before.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "line_survey.h"

#define LF 0 /* codes of line ends */
#define CRLF 1
#define NONE 3

#define WORD 8

/* Whole texts: whether they are UTF-8 ----------------------------------------------------------------------------------------*/

/* Return the length of the UTF-8 character at *at*, which is not ASCII; 0 if there is none (RFC 3629, section 4). */
static Py_ssize_t
character_bytes(const unsigned char *at, const unsigned char *end)
{
    unsigned char lead = *at, low = 0x80, high = 0xBF;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    Py_ssize_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (end - at < size)
        return 0;
    if (lead == 0xE0) /* else it would have been shorter */
        low = 0xA0;
    else if (lead == 0xED) /* surrogates */
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4) /* beyond Unicode */
        high = 0x8F;
    if (at[1] < low || at[1] > high)
        return 0;
    for (Py_ssize_t i = 2; i < size; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

static int
is_utf8(const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        uint64_t word;
        if (end - at >= WORD) {
            memcpy(&word, at, WORD);
            if ((word & 0x8080808080808080u) == 0) {
                at += WORD;
                continue;
            }
        }
        Py_ssize_t size = *at < 0x80 ? 1 : character_bytes(at, end);
        if (size == 0)
            return 0;
        at += size;
    }
    return 1;
}

#include "json_text.h"

/* Readers: the text of files -> events ---------------------------------------------------------------------------------------*/

#define FARTHEST ((int64_t)1 << 62) /* where a text begins in its file, at most: no sum of places overflows */

/* Where the bytes of each column are written. */
struct places {
    char *messages, *offsets, *begins, *stops, *ends, *flawed, *counts;
};

/* What is made of texts; its buffers have room for as many events and texts as were counted. */
struct columns {
    PyObject *messages, *offsets, *begins, *stops, *ends, *flawed, *counts;
    struct places to;       /* in these */
    Py_ssize_t count, size; /* events so far, bytes of their messages */
    int other_ends, flaws;  /* whether any event ends with more or less than LF; whether any is not UTF-8 */
};

static void
drop_columns(struct columns *columns)
{
    Py_XDECREF(columns->messages);
    Py_XDECREF(columns->offsets);
    Py_XDECREF(columns->begins);
    Py_XDECREF(columns->stops);
    Py_XDECREF(columns->ends);
    Py_XDECREF(columns->flawed);
    Py_XDECREF(columns->counts);
}

static int
new_columns(struct columns *columns, Py_ssize_t events, Py_ssize_t messages, Py_ssize_t texts)
{
    Py_ssize_t places = events * (Py_ssize_t)sizeof(int64_t);
    *columns = (struct columns){
        .messages = PyBytes_FromStringAndSize(NULL, messages),
        .offsets = PyBytes_FromStringAndSize(NULL, (events + 1) * (Py_ssize_t)sizeof(int32_t)),
        .begins = PyBytes_FromStringAndSize(NULL, places),
        .stops = PyBytes_FromStringAndSize(NULL, places),
        .ends = PyBytes_FromStringAndSize(NULL, events),
        .flawed = PyBytes_FromStringAndSize(NULL, events),
        .counts = PyBytes_FromStringAndSize(NULL, texts * (Py_ssize_t)sizeof(int64_t)),
    };
    if (columns->messages == NULL || columns->offsets == NULL || columns->begins == NULL || columns->stops == NULL ||
        columns->ends == NULL || columns->flawed == NULL || columns->counts == NULL) {
        drop_columns(columns);
        return -1;
    }
    columns->to = (struct places){
        .messages = PyBytes_AsString(columns->messages),
        .offsets = PyBytes_AsString(columns->offsets),
        .begins = PyBytes_AsString(columns->begins),
        .stops = PyBytes_AsString(columns->stops),
        .ends = PyBytes_AsString(columns->ends),
        .flawed = PyBytes_AsString(columns->flawed),
        .counts = PyBytes_AsString(columns->counts),
    };
    return 0;
}

/* Return the *number*th of *places*, which is aligned by no promise of who made it. */
static int64_t
place_at(const Py_buffer *places, Py_ssize_t number)
{
    int64_t place;
    memcpy(&place, (const char *)places->buf + number * (Py_ssize_t)sizeof place, sizeof place);
    return place;
}

/* Return the number of events of *text*; -1 if *cuts* do not rise up to its end, or *starts* are not places, one for each. */
static Py_ssize_t
count_events(const Py_buffer *text, const Py_buffer *cuts, const Py_buffer *starts, int lines, Py_ssize_t newlines)
{
    const unsigned char *bytes = text->buf;
    Py_ssize_t texts = cuts->len / (Py_ssize_t)sizeof(int64_t), events = lines ? newlines : texts;
    int64_t before = 0;
    if (text->len > INT32_MAX || cuts->len % (Py_ssize_t)sizeof(int64_t) != 0 || starts->len != cuts->len)
        return -1;
    for (Py_ssize_t i = 0; i < texts; i++) {
        int64_t cut = place_at(cuts, i), start = place_at(starts, i);
        if (cut <= before || cut > text->len || start < 0 || start > FARTHEST)
            return -1;
        events += lines && bytes[cut - 1] != '\n';
        before = cut;
    }
    return before == text->len ? events : -1;
}

/* Return where the event from *at* on ends, at *end* or behind a newline before it. */
static const unsigned char *
event_stop(const unsigned char *at, const unsigned char *end, int lines)
{
    const unsigned char *newline = lines ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    return newline == NULL ? end : newline + 1;
}

/* Return the code of the line end of the event from *at* to *stop*. */
static char
end_code(const unsigned char *at, const unsigned char *stop)
{
    if (stop[-1] != '\n')
        return NONE;
    return stop - at > 1 && stop[-2] == '\r' ? CRLF : LF;
}

static const Py_ssize_t END_SIZES[] = {1, 2, 1, 0}; /* of line ends, by their codes */

/* Return the bytes of all messages. */
static Py_ssize_t
messages_size(const Py_buffer *text, const Py_buffer *cuts, int lines, const struct survey *survey)
{
    if (lines && !survey->returns)
        return text->len - survey->newlines;
    const unsigned char *bytes = text->buf, *at = bytes;
    Py_ssize_t size = text->len;
    for (Py_ssize_t i = 0; i < cuts->len / (Py_ssize_t)sizeof(int64_t); i++)
        for (const unsigned char *end = bytes + place_at(cuts, i); at < end;) {
            const unsigned char *stop = event_stop(at, end, lines);
            size -= END_SIZES[(int)end_code(at, stop)];
            at = stop;
        }
    return size;
}

/* Add the events of the text from *at* to *end*, which begins at *start* in its file. */
static void
add_events(struct columns *columns, const unsigned char *at, const unsigned char *end, int64_t start, int lines, int plain)
{
    struct places to = columns->to;
    Py_ssize_t row = columns->count, size = columns->size;
    while (at < end) {
        const unsigned char *stop = event_stop(at, end, lines);
        char code = end_code(at, stop);
        Py_ssize_t bare = stop - at - END_SIZES[(int)code];
        memcpy(to.messages + size, at, (size_t)bare);
        size += bare;
        int64_t begin = start, after = start + (stop - at);
        int32_t offset = (int32_t)size;
        memcpy(to.offsets + (row + 1) * (Py_ssize_t)sizeof offset, &offset, sizeof offset);
        memcpy(to.begins + row * (Py_ssize_t)sizeof begin, &begin, sizeof begin);
        memcpy(to.stops + row * (Py_ssize_t)sizeof after, &after, sizeof after);
        to.ends[row] = code;
        columns->other_ends |= code != LF;
        char flaw = (char)(!plain && !is_utf8(at, at + bare));
        to.flawed[row] = flaw;
        columns->flaws |= flaw;
        start = after;
        at = stop;
        row++;
    }
    columns->count = row;
    columns->size = size;
}

/* Add the events of all texts. Nothing of Python's is touched. */
static void
add_texts(struct columns *columns, const Py_buffer *text, const Py_buffer *cuts, const Py_buffer *starts, int lines, int plain)
{
    const unsigned char *bytes = text->buf;
    memset(columns->to.offsets, 0, sizeof(int32_t));
    int64_t before = 0;
    for (Py_ssize_t i = 0; i < cuts->len / (Py_ssize_t)sizeof(int64_t); i++) {
        int64_t cut = place_at(cuts, i), count = columns->count;
        add_events(columns, bytes + before, bytes + cut, place_at(starts, i), lines, plain);
        count = columns->count - count;
        memcpy(columns->to.counts + i * (Py_ssize_t)sizeof count, &count, sizeof count);
        before = cut;
    }
}

static PyObject *
columns_of(const Py_buffer *text, const Py_buffer *cuts, const Py_buffer *starts, int lines)
{
    struct survey survey;
    Py_ssize_t texts = cuts->len / (Py_ssize_t)sizeof(int64_t), events, messages = 0;
    struct columns columns;
    Py_BEGIN_ALLOW_THREADS /* other threads have texts, too */
    survey = survey_lines(text->buf, text->len);
    events = count_events(text, cuts, starts, lines, survey.newlines);
    if (events >= 0)
        messages = messages_size(text, cuts, lines, &survey);
    Py_END_ALLOW_THREADS
    if (events < 0) {
        PyErr_SetString(PyExc_ValueError, "cuts that do not rise to the end of the text, or it is too long, or other starts");
        return NULL;
    }
    if (new_columns(&columns, events, messages, texts) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    add_texts(&columns, text, cuts, starts, lines, !survey.high);
    Py_END_ALLOW_THREADS
    PyObject *result = Py_BuildValue("OOOOOOO", columns.messages, columns.offsets, columns.begins, columns.stops,
                                     columns.other_ends ? columns.ends : Py_None, columns.flaws ? columns.flawed : Py_None,
                                     columns.counts);
    drop_columns(&columns);
    return result;
}

PyDoc_STRVAR(split_texts_doc, "As `text_plain.split_texts`.");

static PyObject *
split_texts(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer text, cuts, starts;
    int lines;
    if (!PyArg_ParseTuple(args, "y*y*y*p", &text, &cuts, &starts, &lines))
        return NULL;
    PyObject *result = NULL;
    if (text.readonly && cuts.readonly && starts.readonly)
        result = columns_of(&text, &cuts, &starts, lines);
    else
        PyErr_SetString(PyExc_TypeError, "not bytes: they could change while they are split");
    PyBuffer_Release(&text);
    PyBuffer_Release(&cuts);
    PyBuffer_Release(&starts);
    return result;
}

static PyMethodDef methods[] = {
    {"json_text", json_text, METH_VARARGS, json_text_doc},
    {"split_texts", split_texts, METH_VARARGS, split_texts_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "logdrive.kernel._text_loops", "The loops that run once a line of text, compiled.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__text_loops(void)
{
    return PyModuleDef_Init(&module);
}
