/* The two loops that run once a record of S2's protocol, compiled: `logdrive.kernel._s2_loops`.
 * What each does is told in s2_plain.py, whose functions give the same, byte for byte; tests
 * compare the two. What comes here may be hostile: every length is compared with what is there
 * before a byte of it is read, and nothing is written that was not counted before.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define EVENT_HEAD 8    /* a Pravega event: type 0, length */
#define MAGIC "\xFFS2"
#define MAGIC_BYTES 3
#define PAYLOAD_HEAD 17 /* magic, kind, version, timestamp, metered size */
#define COMMAND_BYTES 128
#define OVERHEAD 8 /* metered of each record */
#define VERSION 1

/* why encode_records has stopped */
enum { OVER, FULL, BROKEN, OTHER };

static uint32_t
read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static uint64_t
read_u64(const unsigned char *at)
{
    return (uint64_t)read_u32(at) << 32 | read_u32(at + 4);
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

static Py_ssize_t
varint_size(uint64_t value)
{
    Py_ssize_t size = 1;
    while (value > 127) {
        value >>= 7;
        size++;
    }
    return size;
}

static unsigned char *
put_varint(unsigned char *to, uint64_t value)
{
    while (value > 127) {
        *to++ = (unsigned char)((value & 0x7F) | 0x80);
        value >>= 7;
    }
    *to++ = (unsigned char)value;
    return to;
}

/* Appends: records of an AppendInput -> Pravega events ----------------------------------------*/

/* Read a length of one to three bytes, no longer than need be; return what follows, or NULL. */
static const unsigned char *
read_length(const unsigned char *at, const unsigned char *end, Py_ssize_t *length)
{
    Py_ssize_t value = 0;
    for (int place = 0; place < 3 && at + place < end; place++) {
        unsigned char byte = at[place];
        value |= (Py_ssize_t)(byte & 0x7F) << (7 * place);
        if (byte < 0x80) {
            *length = value;
            return byte == 0 && place != 0 ? NULL : at + place + 1;
        }
    }
    return NULL;
}

/* Set *body* and *length* to those of the record at *at* if it is nothing but a body; return what
 * follows it, or NULL.
 */
static const unsigned char *
plain_body(const unsigned char *at, const unsigned char *end, const unsigned char **body, Py_ssize_t *length)
{
    Py_ssize_t size;
    if (at == end || *at != 0x0A || (at = read_length(at + 1, end, &size)) == NULL || size > end - at)
        return NULL;
    const unsigned char *after = at + size;
    if (size == 0) {
        *body = at;
        *length = 0;
        return after;
    }
    if (*at != 0x1A || (at = read_length(at + 1, after, length)) == NULL || *length != after - at)
        return NULL;
    *body = at;
    return *length >= MAGIC_BYTES && memcmp(at, MAGIC, MAGIC_BYTES) == 0 ? NULL : after;
}

PyDoc_STRVAR(frame_bodies_doc, "As `s2_plain.frame_bodies`.");

static PyObject *
frame_bodies(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t most, count = 0, bytes = 0;
    if (!PyArg_ParseTuple(args, "y*n", &data, &most))
        return NULL;
    const unsigned char *start = data.buf, *at = start, *end = start + data.len, *body, *after;
    Py_ssize_t length;
    while (count < most && (after = plain_body(at, end, &body, &length)) != NULL) {
        at = after;
        bytes += length;
        count++;
    }
    PyObject *result = NULL, *events = NULL;
    if (count <= (PY_SSIZE_T_MAX - bytes) / EVENT_HEAD)
        events = PyBytes_FromStringAndSize(NULL, bytes + count * EVENT_HEAD);
    else
        PyErr_NoMemory();
    if (events != NULL) {
        unsigned char *to = (unsigned char *)PyBytes_AsString(events);
        const unsigned char *from = start;
        for (Py_ssize_t i = 0; i < count; i++) {
            from = plain_body(from, end, &body, &length);
            to = put_u32(to, 0);
            to = put_u32(to, (uint32_t)length);
            to = put(to, body, length);
        }
        result = Py_BuildValue("Nnnn", events, count, bytes + count * OVERHEAD, at - start);
    }
    PyBuffer_Release(&data);
    return result;
}

/* Reads: Pravega events -> records of a ReadBatch ----------------------------------------------*/

/* The events that are left, and the limits of the batch. */
struct batch {
    const unsigned char *at, *end;
    unsigned long long seq_num, timestamp, time_ms, end_seq_num, metered, nominal, hard, latest;
    int splice;
};

/* One record: what follows its timestamp, and whether these are *fields* or a plain body. */
struct record {
    const unsigned char *bytes;
    Py_ssize_t length;
    int fields;
};

/* Return the payload's kind and set its timestamp and metered size; 0 if it is plain. */
static int
payload_head(const unsigned char *at, Py_ssize_t length, unsigned long long *timestamp, unsigned long long *metered)
{
    if (length < PAYLOAD_HEAD || memcmp(at, MAGIC, MAGIC_BYTES) != 0 || at[4] != VERSION)
        return 0;
    int kind = at[3];
    uint64_t size = read_u32(at + 13);
    if ((kind != 'R' && kind != 'C' && kind != 'E') || (kind == 'C' && length > COMMAND_BYTES))
        return 0;
    if (size < OVERHEAD || size > (uint64_t)(OVERHEAD + length - PAYLOAD_HEAD))
        return 0;
    *timestamp = read_u64(at + 5);
    *metered = size;
    return kind;
}

/* Advance to behind the next record. Return -1 if there is one, else why not. */
static int
next_record(struct batch *batch, struct record *record)
{
    if (batch->end - batch->at < EVENT_HEAD)
        return OVER;
    uint32_t length = read_u32(batch->at + 4);
    if (read_u32(batch->at) != 0 || length > INT32_MAX)
        return BROKEN;
    const unsigned char *body = batch->at + EVENT_HEAD;
    if ((Py_ssize_t)length > batch->end - body)
        return OVER;
    unsigned long long stamp = batch->time_ms, cost = (unsigned long long)length + OVERHEAD;
    int kind = payload_head(body, (Py_ssize_t)length, &stamp, &cost);
    if (kind == 'E' || (kind != 0 && !batch->splice))
        return OTHER;
    if (stamp < batch->timestamp)
        stamp = batch->timestamp;
    if (batch->seq_num == batch->end_seq_num || stamp > batch->latest)
        return FULL;
    if (batch->metered > batch->nominal || cost > batch->nominal - batch->metered)
        if (batch->metered != 0 || cost > batch->hard)
            return FULL;
    record->fields = kind != 0;
    record->bytes = kind != 0 ? body + PAYLOAD_HEAD : body;
    record->length = (Py_ssize_t)length - (kind != 0 ? PAYLOAD_HEAD : 0);
    batch->at = body + length;
    batch->timestamp = stamp;
    batch->metered += cost;
    batch->seq_num++;
    return -1;
}

/* Return the size of the record's message; the batch is behind the record. */
static Py_ssize_t
message_size(const struct batch *batch, const struct record *record)
{
    Py_ssize_t size = 2 + varint_size(batch->seq_num - 1) + varint_size(batch->timestamp) + record->length;
    return record->fields ? size : size + 1 + varint_size((uint64_t)record->length);
}

static unsigned char *
put_record(unsigned char *to, const struct batch *batch, const struct record *record)
{
    *to++ = 0x0A;
    to = put_varint(to, (uint64_t)message_size(batch, record));
    *to++ = 0x08;
    to = put_varint(to, batch->seq_num - 1);
    *to++ = 0x10;
    to = put_varint(to, batch->timestamp);
    if (!record->fields) {
        *to++ = 0x22;
        to = put_varint(to, (uint64_t)record->length);
    }
    return put(to, record->bytes, record->length);
}

PyDoc_STRVAR(encode_records_doc, "As `s2_plain.encode_records`.");

static PyObject *
encode_records(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, size = 0;
    struct batch batch;
    if (!PyArg_ParseTuple(args, "y*nKKKKKKKKp", &data, &at, &batch.seq_num, &batch.timestamp, &batch.time_ms,
                          &batch.end_seq_num, &batch.metered, &batch.nominal, &batch.hard, &batch.latest, &batch.splice))
        return NULL;
    PyObject *records = NULL, *result = NULL;
    const unsigned char *start = data.buf;
    if (at < 0 || at > data.len) {
        PyErr_SetString(PyExc_ValueError, "no event there");
        goto done;
    }
    batch.at = start + at;
    batch.end = start + data.len;
    struct batch walked = batch;
    struct record record;
    int why, spliced = 0;
    while ((why = next_record(&walked, &record)) < 0) {
        Py_ssize_t message = message_size(&walked, &record);
        size += 1 + varint_size((uint64_t)message) + message;
        spliced |= record.fields;
    }
    records = PyBytes_FromStringAndSize(NULL, size);
    if (records == NULL)
        goto done;
    unsigned char *to = (unsigned char *)PyBytes_AsString(records);
    while (batch.at != walked.at && next_record(&batch, &record) < 0)
        to = put_record(to, &batch, &record);
    result = Py_BuildValue("NnKKKiN", records, walked.at - start, walked.seq_num, walked.timestamp, walked.metered, why,
                           PyBool_FromLong(spliced));
done:
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {
    {"frame_bodies", frame_bodies, METH_VARARGS, frame_bodies_doc},
    {"encode_records", encode_records, METH_VARARGS, encode_records_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "logdrive.kernel._s2_loops", "The loops that run once a record of S2's protocol, compiled.",
    0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__s2_loops(void)
{
    return PyModuleDef_Init(&module);
}
