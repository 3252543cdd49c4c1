/* The loops that run once a line of text, compiled: `logdrive.kernel._text_loops`. What each does is told in text_plain.py, whose
 * functions give the same, byte for byte; tests compare the two. What comes here may be hostile: every place is compared with
 * what is there before a byte of it is read, and nothing is written that was not counted before.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define LF 0 /* codes of line ends */
#define CRLF 1
#define NONE 3

#define LANES 64   /* bytes that are compared in one go: the compiler makes vectors of them */
#define ROUNDS 255 /* that a counter of one byte counts at most */
#define WORD 8

/* Whole texts: how many lines, and whether all bytes are ASCII -------------------------------------------------------------*/

struct counted {
    Py_ssize_t events, ends; /* events, and bytes of their line ends */
};

/* Count newlines as events, and these and the CRs before them as line ends. */
static struct counted
count_lines(const unsigned char *text, Py_ssize_t size)
{
    struct counted counted = {0, 0};
    const unsigned char *at = text, *end = text + size;
    if (at < end && *at++ == '\n')
        counted = (struct counted){1, 1};
    while (end - at >= LANES) {
        unsigned char newlines[LANES] = {0}, returns[LANES] = {0};
        for (int round = 0; round < ROUNDS && end - at >= LANES; round++, at += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                unsigned char newline = at[lane] == '\n';
                newlines[lane] = (unsigned char)(newlines[lane] + newline);
                returns[lane] = (unsigned char)(returns[lane] + (newline & (at[lane - 1] == '\r')));
            }
        for (int lane = 0; lane < LANES; lane++) {
            counted.events += newlines[lane];
            counted.ends += newlines[lane] + returns[lane];
        }
    }
    for (; at < end; at++)
        if (*at == '\n') {
            counted.events++;
            counted.ends += 1 + (at[-1] == '\r');
        }
    return counted;
}

static int
is_ascii(const unsigned char *at, const unsigned char *end)
{
    for (; end - at >= LANES; at += LANES) {
        unsigned char any = 0;
        for (int lane = 0; lane < LANES; lane++)
            any |= at[lane];
        if (any & 0x80)
            return 0;
    }
    for (; at < end; at++)
        if (*at & 0x80)
            return 0;
    return 1;
}

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

/* Readers: the text of a file -> events --------------------------------------------------------------------------------------*/

/* What is made of a text; its buffers have room for as many events as were counted. */
struct columns {
    PyObject *messages, *offsets, *places, *ends, *flawed;
    unsigned char *to;      /* where the next message begins */
    Py_ssize_t count, size; /* events so far, bytes of their messages */
    int other_ends, flaws;  /* whether any event ends with more or less than LF; whether any is not UTF-8 */
};

static void
drop_columns(struct columns *columns)
{
    Py_XDECREF(columns->messages);
    Py_XDECREF(columns->offsets);
    Py_XDECREF(columns->places);
    Py_XDECREF(columns->ends);
    Py_XDECREF(columns->flawed);
}

static int
new_columns(struct columns *columns, struct counted counted, Py_ssize_t size)
{
    Py_ssize_t events = counted.events;
    *columns = (struct columns){
        .messages = PyBytes_FromStringAndSize(NULL, size - counted.ends),
        .offsets = PyBytes_FromStringAndSize(NULL, (events + 1) * (Py_ssize_t)sizeof(int32_t)),
        .places = PyBytes_FromStringAndSize(NULL, (events + 1) * (Py_ssize_t)sizeof(int64_t)),
        .ends = PyBytes_FromStringAndSize(NULL, events),
        .flawed = PyBytes_FromStringAndSize(NULL, events),
    };
    if (columns->messages == NULL || columns->offsets == NULL || columns->places == NULL || columns->ends == NULL ||
        columns->flawed == NULL) {
        drop_columns(columns);
        return -1;
    }
    columns->to = (unsigned char *)PyBytes_AsString(columns->messages);
    memset(PyBytes_AsString(columns->offsets), 0, sizeof(int32_t));
    memset(PyBytes_AsString(columns->places), 0, sizeof(int64_t));
    return 0;
}

/* Add the event from *at* to *stop*, whose last byte is the *place*th of the text. */
static void
add_event(struct columns *columns, const unsigned char *at, const unsigned char *stop, int64_t place, int plain)
{
    Py_ssize_t bare = stop - at;
    char end = NONE;
    if (stop[-1] == '\n') {
        end = LF;
        bare--;
        if (bare > 0 && stop[-2] == '\r') {
            end = CRLF;
            bare--;
        }
    }
    memcpy(columns->to, at, (size_t)bare);
    columns->to += bare;
    columns->size += bare;
    Py_ssize_t row = columns->count++;
    int32_t offset = (int32_t)columns->size;
    memcpy(PyBytes_AsString(columns->offsets) + (row + 1) * (Py_ssize_t)sizeof offset, &offset, sizeof offset);
    memcpy(PyBytes_AsString(columns->places) + (row + 1) * (Py_ssize_t)sizeof place, &place, sizeof place);
    PyBytes_AsString(columns->ends)[row] = end;
    columns->other_ends |= end != LF;
    char flaw = (char)(!plain && !is_utf8(at, at + bare));
    PyBytes_AsString(columns->flawed)[row] = flaw;
    columns->flaws |= flaw;
}

static int64_t
cut_at(const Py_buffer *cuts, Py_ssize_t number)
{
    int64_t cut;
    memcpy(&cut, (const char *)cuts->buf + number * (Py_ssize_t)sizeof cut, sizeof cut);
    return cut;
}

/* Count the events of *text*; -1 of them if *cuts* do not rise up to its end. */
static struct counted
count_events(const Py_buffer *text, const Py_buffer *cuts, int lines)
{
    const unsigned char *bytes = text->buf;
    struct counted counted = lines ? count_lines(bytes, text->len) : (struct counted){0, 0}, none = {-1, 0};
    int64_t before = 0;
    if (text->len > INT32_MAX || cuts->len % (Py_ssize_t)sizeof before != 0)
        return none;
    for (Py_ssize_t i = 0; i < cuts->len / (Py_ssize_t)sizeof before; i++) {
        int64_t cut = cut_at(cuts, i);
        if (cut <= before || cut > text->len)
            return none;
        int newline = bytes[cut - 1] == '\n', returned = newline && cut - before > 1 && bytes[cut - 2] == '\r';
        if (!lines) {
            counted.events++;
            counted.ends += newline + returned;
        }
        else {
            counted.events += !newline;
            if (bytes[cut - 1] == '\r' && cut < text->len && bytes[cut] == '\n')
                counted.ends--; /* the newline is an event by itself */
        }
        before = cut;
    }
    return before == text->len ? counted : none;
}

PyDoc_STRVAR(split_text_doc, "As `text_plain.split_text`.");

static PyObject *
split_text(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer text, cuts;
    int lines;
    if (!PyArg_ParseTuple(args, "y*y*p", &text, &cuts, &lines))
        return NULL;
    PyObject *result = NULL;
    struct columns columns;
    const unsigned char *bytes = text.buf, *at = bytes;
    struct counted counted = count_events(&text, &cuts, lines);
    if (counted.events < 0) {
        PyErr_SetString(PyExc_ValueError, "the cuts do not rise to the end of the text, or it is too long");
        goto done;
    }
    if (new_columns(&columns, counted, text.len) < 0)
        goto done;
    int plain = is_ascii(bytes, bytes + text.len);
    for (Py_ssize_t i = 0; i < cuts.len / (Py_ssize_t)sizeof(int64_t); i++) {
        const unsigned char *end = bytes + cut_at(&cuts, i);
        while (at < end) {
            const unsigned char *newline = lines ? memchr(at, '\n', (size_t)(end - at)) : NULL;
            const unsigned char *stop = newline == NULL ? end : newline + 1;
            add_event(&columns, at, stop, stop - bytes, plain);
            at = stop;
        }
    }
    result = Py_BuildValue("OOOOO", columns.messages, columns.offsets, columns.places,
                           columns.other_ends ? columns.ends : Py_None, columns.flaws ? columns.flawed : Py_None);
    drop_columns(&columns);
done:
    PyBuffer_Release(&text);
    PyBuffer_Release(&cuts);
    return result;
}

static PyMethodDef methods[] = {
    {"split_text", split_text, METH_VARARGS, split_text_doc},
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
