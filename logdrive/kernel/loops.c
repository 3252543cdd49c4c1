/* The loops that run once a line, compiled: `logdrive.kernel._loops`. What each does is told in plain.py, whose functions
 * give the same, byte for byte; tests compare the two. What comes here may be hostile: every length is compared with what is
 * there before a byte of it is read, and nothing is written that was not counted before.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "line_survey.h"

#define FRAME_HEAD 10 /* J: version and type, sequence, length */
#define EVENT_HEAD 8  /* a Pravega event: type 0, length */
#define DIGITS 20     /* of the largest number in 64 bits */
#define SPECIAL 0xFF  /* the first byte of what is stored of a message with more than a payload */

static uint32_t
read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static unsigned char *
put_u32(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)(value >> 24);
    to[1] = (unsigned char)(value >> 16);
    to[2] = (unsigned char)(value >> 8);
    to[3] = (unsigned char)value;
    return to + 4;
}

static unsigned char *
put(unsigned char *to, const void *from, Py_ssize_t size)
{
    memcpy(to, from, (size_t)size);
    return to + size;
}

/* Receivers: J frames that follow one another -> Pravega events --------------------------------------------------------------*/

static PyObject *
copied_events(const unsigned char *frames, Py_ssize_t count, Py_ssize_t length)
{
    PyObject *events = PyBytes_FromStringAndSize(NULL, length - count * (FRAME_HEAD - EVENT_HEAD));
    if (events == NULL)
        return NULL;
    unsigned char *to = (unsigned char *)PyBytes_AsString(events);
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t size = read_u32(frames + 6);
        to = put_u32(to, 0);
        to = put(to, frames + 6, (Py_ssize_t)size + 4); /* length and payload, as they stand */
        frames += FRAME_HEAD + (Py_ssize_t)size;
    }
    return events;
}

PyDoc_STRVAR(cut_events_doc, "As `plain.cut_events`.");

static PyObject *
cut_events(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, end, limit, most;
    if (!PyArg_ParseTuple(args, "y*nnnn", &data, &at, &end, &limit, &most))
        return NULL;
    PyObject *result = NULL;
    const unsigned char *bytes = data.buf;
    Py_ssize_t count = 0, place = at;
    uint64_t expected = 0;
    if (at < 0 || end > data.len || end - at < FRAME_HEAD) {
        PyErr_SetString(PyExc_ValueError, "no frame there");
        goto done;
    }
    expected = read_u32(bytes + at + 2);
    while (count < most && end - place >= FRAME_HEAD) {
        const unsigned char *head = bytes + place;
        Py_ssize_t size = (Py_ssize_t)read_u32(head + 6);
        if (memcmp(head, bytes + at, 2) != 0 || read_u32(head + 2) != expected)
            break;
        if (size == 0 || size > limit || size > end - place - FRAME_HEAD)
            break;
        place += FRAME_HEAD + size;
        expected++;
        count++;
    }
    if (count == 0) {
        PyErr_SetString(PyExc_ValueError, "no whole frame there");
        goto done;
    }
    PyObject *events = copied_events(bytes + at, count, place - at);
    if (events != NULL)
        result = Py_BuildValue("Nnn", events, count, place - at);
done:
    PyBuffer_Release(&data);
    return result;
}

/* Agents and readers: lines counted ------------------------------------------------------------------------------------------*/

PyDoc_STRVAR(count_lines_doc, "As `plain.count_lines`.");

static PyObject *
count_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(args, "y*nn", &data, &begin, &end))
        return NULL;
    PyObject *count = NULL;
    if (begin < 0 || begin > end || end > data.len)
        PyErr_SetString(PyExc_ValueError, "not within the data");
    else
        count = PyLong_FromSsize_t(survey_lines((const unsigned char *)data.buf + begin, end - begin).newlines);
    PyBuffer_Release(&data);
    return count;
}

/* Agents: lines -> pairs, and full records -----------------------------------------------------------------------------------*/

static unsigned char *
put_decimal(unsigned char *to, uint64_t value)
{
    unsigned char digits[DIGITS];
    int left = DIGITS;
    do {
        digits[--left] = (unsigned char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return put(to, digits + left, DIGITS - left);
}

PyDoc_STRVAR(place_lines_doc, "As `plain.place_lines`.");

static PyObject *
place_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    unsigned long long start;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "y*Kn", &data, &start, &most))
        return NULL;
    PyObject *result = NULL;
    const unsigned char *bytes = data.buf;
    Py_ssize_t count = 0, place = 0;
    unsigned char *places = NULL, *to;
    if (most < 1 || most > PY_SSIZE_T_MAX / (DIGITS + 1)) {
        PyErr_SetString(PyExc_ValueError, "at least one line, and not that many");
        goto done;
    }
    places = to = PyMem_Malloc((size_t)(most * (DIGITS + 1)));
    if (places == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    while (count < most && place < data.len) {
        const unsigned char *newline = memchr(bytes + place, '\n', (size_t)(data.len - place));
        if (newline == NULL)
            break;
        if (count != 0)
            *to++ = ',';
        to = put_decimal(to, start + (uint64_t)place);
        place = newline - bytes + 1;
        count++;
    }
    result = Py_BuildValue("y#nn", (const char *)places, (Py_ssize_t)(to - places), count, place);
done:
    PyMem_Free(places);
    PyBuffer_Release(&data);
    return result;
}

#include "adler.h"
#include "line_records.h"

/* All faces: events that are stored as they came -------------------------------------------------*/

PyDoc_STRVAR(walk_plain_doc, "As `plain.walk_plain`.");

static PyObject *
walk_plain(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, most, count = 0;
    if (!PyArg_ParseTuple(args, "y*nn", &data, &at, &most))
        return NULL;
    const unsigned char *bytes = data.buf;
    while (count < most && at >= 0 && at <= data.len && data.len - at >= EVENT_HEAD) {
        const unsigned char *event = bytes + at;
        uint32_t length = read_u32(event + 4);
        if (read_u32(event) != 0 || length > INT32_MAX || (Py_ssize_t)length > data.len - at - EVENT_HEAD)
            break;
        if (length > 0 && event[EVENT_HEAD] == SPECIAL)
            break;
        at += EVENT_HEAD + (Py_ssize_t)length;
        count++;
    }
    PyBuffer_Release(&data);
    return Py_BuildValue("nn", at, count);
}

static PyMethodDef methods[] = {
    {"adler32", adler32, METH_VARARGS, adler32_doc},
    {"cut_events", cut_events, METH_VARARGS, cut_events_doc},
    {"count_lines", count_lines, METH_VARARGS, count_lines_doc},
    {"place_lines", place_lines, METH_VARARGS, place_lines_doc},
    {"scan_lines", scan_lines, METH_VARARGS, scan_lines_doc},
    {"line_frames", line_frames, METH_VARARGS, line_frames_doc},
    {"line_events", line_events, METH_VARARGS, line_events_doc},
    {"walk_plain", walk_plain, METH_VARARGS, walk_plain_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "logdrive.kernel._loops", "The loops that run once a line, compiled.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__loops(void)
{
    return PyModuleDef_Init(&module);
}
