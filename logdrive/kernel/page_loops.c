/* Pages of Parquet files that hold texts, compiled: `logdrive.kernel._page_loops`. There is no twin in Python: without this,
 * Arrow's writer makes the pages. What comes here may be hostile: every place is compared with what is there before a byte of it
 * is read, and nothing is written that was not counted before.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lowest byte has to come first: leave this module out"
#endif

#include "snappy.h"

#define SIZE 4                                 /* bytes of a text's length, and of a place */
#define ROOM (SNAPPY_SPARE + SNAPPY_PADDING) /* bytes besides the page, as it is and compressed */

static uint32_t
place_at(const unsigned char *offsets, Py_ssize_t number)
{
    uint32_t place;
    memcpy(&place, offsets + number * SIZE, sizeof place);
    return place;
}

/* Return the bytes of *count* texts from the *first* on, with their lengths; -1 if *offsets* do not rise within *data*. */
static int64_t
texts_size(const Py_buffer *offsets, const Py_buffer *data, Py_ssize_t first, Py_ssize_t count)
{
    Py_ssize_t places = offsets->len / SIZE;
    if (first < 0 || count < 0 || first >= places || count > places - first - 1)
        return -1;
    uint32_t begin = place_at(offsets->buf, first), before = begin;
    for (Py_ssize_t i = 1; i <= count; i++) {
        uint32_t place = place_at(offsets->buf, first + i);
        if (place < before)
            return -1;
        before = place;
    }
    return before > (uint64_t)data->len ? -1 : (int64_t)(before - begin) + SIZE * (int64_t)count;
}

/* Write each text behind its length: Parquet's encoding PLAIN of byte arrays. */
static void
put_texts(unsigned char *out, const Py_buffer *offsets, const Py_buffer *data, Py_ssize_t first, Py_ssize_t count)
{
    uint32_t at = place_at(offsets->buf, first);
    for (Py_ssize_t i = 1; i <= count; i++) {
        uint32_t stop = place_at(offsets->buf, first + i), size = stop - at;
        memcpy(out, &size, sizeof size);
        memcpy(out + SIZE, (const unsigned char *)data->buf + at, size);
        out += SIZE + size;
        at = stop;
    }
}

/* Write the page into *room*; return how many bytes of it that are, -1 with an error set. */
static Py_ssize_t
put_page(const Py_buffer *levels, const Py_buffer *offsets, const Py_buffer *data, Py_ssize_t first, Py_ssize_t count,
         const Py_buffer *room)
{
    int64_t texts = texts_size(offsets, data, first, count), size = texts + levels->len;
    if (texts < 0 || size > INT32_MAX || 2 * size + ROOM > room->len) {
        PyErr_SetString(PyExc_ValueError, "places that do not rise within the data, or too little room for the page");
        return -1;
    }
    /* compressed, and behind it as it is */
    unsigned char *page = room->buf, *plain = page + size + SNAPPY_SPARE;
    Py_ssize_t compressed;
    Py_BEGIN_ALLOW_THREADS
    memcpy(plain, levels->buf, (size_t)levels->len);
    put_texts(plain + levels->len, offsets, data, first, count);
    memset(plain + size, 0, SNAPPY_PADDING);
    compressed = (Py_ssize_t)compress_snappy(plain, (size_t)size, page);
    Py_END_ALLOW_THREADS
    return compressed;
}

PyDoc_STRVAR(snappy_page_doc, "As told in page_plain.py.");

static PyObject *
snappy_page(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer levels, offsets, data, room;
    Py_ssize_t first, count;
    if (!PyArg_ParseTuple(args, "y*y*y*nnw*", &levels, &offsets, &data, &first, &count, &room))
        return NULL;
    Py_ssize_t size = put_page(&levels, &offsets, &data, first, count, &room);
    PyBuffer_Release(&levels);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&room);
    return size < 0 ? NULL : PyLong_FromSsize_t(size);
}

static PyMethodDef methods[] = {
    {"snappy_page", snappy_page, METH_VARARGS, snappy_page_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "logdrive.kernel._page_loops", "Pages of Parquet files that hold texts.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__page_loops(void)
{
    return PyModuleDef_Init(&module);
}
