/* The loops that run once per message of Iggy's protocol, compiled: `logdrive.kernel._iggy_loops`.
 * What each does is told in iggy_plain.py, whose functions give the same, byte for byte; tests
 * compare the two. What comes here may be hostile: every length is compared with what is there
 * before a byte of it is read, and nothing is written that was not counted before.
 */
#include "iggy_encoding.h"

#define PAYLOAD_MOST ((Py_ssize_t)1 << 30) /* so that each event has room for its headers, too */

static unsigned char *
put_event_head(unsigned char *to, Py_ssize_t size)
{
    return put_u32(put_u32(to, 0), __builtin_bswap32((uint32_t)size));
}

/* Sends: messages -> events --------------------------------------------------------------------*/

struct limits {
    Py_ssize_t payload, total, headers;
    int empty;
};

/* Begin at the first message of a send; return what is wrong with all of them. */
static int
open_sent(struct messages *messages, const unsigned char *data, Py_ssize_t size, Py_ssize_t count)
{
    messages->at = messages->start = data;
    messages->end = data + size;
    messages->number = 0;
    messages->count = count;
    if (messages->layout == CLASSIC)
        return size == 0 ? COUNT : NONE;
    if (messages->layout != RECORDS) {
        if (count <= 0)
            return COUNT;
        if (count > size / INDEX_ENTRY)
            return INDEX;
        messages->index = data;
        messages->at = messages->start = data + INDEX_ENTRY * count;
        return NONE;
    }
    if (size < RECORD_HEAD)
        return LENGTH;
    open_record(messages, data);
    if (messages->offset != 0)
        return OFFSET;
    if (messages->time != 0)
        return TIMESTAMP;
    if (!is_zero(data + RECORD_FIELDS, RECORD_HEAD - RECORD_FIELDS))
        return RESERVED;
    if (load_u64(data + 32) != (uint64_t)size)
        return LENGTH;
    return messages->count == 0 || messages->count != count ? COUNT : NONE;
}

static int
next_sent(struct messages *messages, struct message *message)
{
    if (messages->layout == CLASSIC)
        return next_classic(messages, message, 1);
    if (messages->layout != RECORDS)
        return next_sent_head(messages, message);
    uint32_t delta;
    int fault = next_frame(messages, message, &delta);
    return fault == NONE && delta != messages->number - 1 ? DELTA : fault;
}

/* Return what is wrong with the contents of *message*; set *kept* to the bytes of its headers as they
 * are stored.
 */
static int
contents_fault(const struct message *message, const struct limits *limits, int typed, Py_ssize_t *total, Py_ssize_t *kept)
{
    Py_ssize_t entries;
    *total += message->payload_size;
    if (message->headers_size > limits->headers)
        return HEADERS_LONG;
    if (message->payload_size == 0 && !limits->empty)
        return PAYLOAD_EMPTY;
    if (message->payload_size > limits->payload || *total > limits->total)
        return PAYLOAD_LONG;
    if (!is_sound(message, RECORDS))
        return MESSAGE_SUM;
    int fault = headers_fault(message->headers, message->headers + message->headers_size, typed, &entries);
    *kept = message->headers_size + (typed ? 0 : entries);
    return fault;
}

static int
is_enveloped(const struct message *message)
{
    return message->headers_size > 0 || (message->payload_size > 0 && *message->payload == 0xFF) ||
           memcmp(message->id, NO_ID, ID_BYTES) != 0;
}

static unsigned char *
put_typed_headers(unsigned char *to, const unsigned char *at, Py_ssize_t size)
{
    for (const unsigned char *end = at + size; at < end;) {
        const unsigned char *after = entry_end(at, 0);
        *to++ = STRING;
        to = put(to, at, after - at);
        at = after;
    }
    return to;
}

/* Write *message* as an event; its envelope's length is where *length* points, once it is known. */
static unsigned char *
put_event(unsigned char *to, const struct message *message, int typed)
{
    unsigned char *head = to;
    to += EVENT_HEAD;
    if (is_enveloped(message)) {
        to = put(to, MAGIC, MAGIC_BYTES);
        to = put(to, message->id, ID_BYTES);
        to = put_u64(to, message->origin);
        unsigned char *length = to, *headers = to + 4;
        to = typed ? put(headers, message->headers, message->headers_size)
                   : put_typed_headers(headers, message->headers, message->headers_size);
        put_u32(length, (uint32_t)(to - headers));
    }
    to = put(to, message->payload, message->payload_size);
    put_event_head(head, to - head - EVENT_HEAD);
    return to;
}

PyDoc_STRVAR(frame_messages_doc, "As `iggy_plain.frame_messages`.");

static PyObject *
frame_messages(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t number, size = 0, longest = 0, total = 0, framed = 0, kept = 0;
    struct limits limits;
    struct messages messages = {0}, again;
    struct message message;
    int chosen = 0;
    if (!PyArg_ParseTuple(args, "iy*nnnnp", &messages.layout, &data, &number, &limits.payload, &limits.total,
                          &limits.headers, &limits.empty))
        return NULL;
    if (limits.payload > PAYLOAD_MOST)
        limits.payload = PAYLOAD_MOST;
    PyObject *result = NULL, *events = NULL;
    int typed = messages.layout >= HEAD_64, fault = open_sent(&messages, data.buf, data.len, number);
    again = messages;
    while (fault == NONE && (fault = next_sent(&messages, &message)) == NONE) {
        fault = contents_fault(&message, &limits, typed, &total, &kept);
        Py_ssize_t length = message.payload_size + (is_enveloped(&message) ? ENVELOPE_HEAD + kept : 0);
        size += EVENT_HEAD + length;
        longest = length > longest ? length : longest;
        chosen |= memcmp(message.id, NO_ID, ID_BYTES) != 0;
        framed++;
    }
    if (fault == AT_END && messages.layout == RECORDS) {
        uint64_t sum;
        if (record_sum(messages.start, messages.count, &sum) < 0) {
            PyErr_NoMemory();
            goto done;
        }
        fault = sum == load_u64(messages.start + 40) ? AT_END : BATCH_SUM;
    }
    if (fault != AT_END) {
        result = Py_BuildValue("iy#nnO", fault, "", (Py_ssize_t)0, (Py_ssize_t)0, (Py_ssize_t)0, Py_False);
        goto done;
    }
    events = PyBytes_FromStringAndSize(NULL, size);
    if (events == NULL)
        goto done;
    unsigned char *to = (unsigned char *)PyBytes_AsString(events);
    for (Py_ssize_t i = 0; i < framed && next_sent(&again, &message) == NONE; i++)
        to = put_event(to, &message, typed);
    result = Py_BuildValue("iNnnN", NONE, events, framed, longest, PyBool_FromLong(chosen));
done:
    PyBuffer_Release(&data);
    return result;
}

/* Stored events -> messages of a poll, or of a send --------------------------------------------*/

PyDoc_STRVAR(encode_messages_doc, "As `iggy_plain.encode_messages`.");

static PyObject *
encode_messages(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, most, limit, count = 0;
    struct encoding form = {0};
    struct message message;
    if (!PyArg_ParseTuple(args, "ipy*nKKKKKnn", &form.layout, &form.sent, &data, &at, &form.offset, &form.time,
                          &form.origin, &form.seed, &form.partition, &most, &limit))
        return NULL;
    PyObject *result = NULL, *encoded = NULL;
    if (at < 0 || at > data.len) {
        PyErr_SetString(PyExc_ValueError, "no event there");
        goto done;
    }
    const unsigned char *start = (const unsigned char *)data.buf + at, *end = (const unsigned char *)data.buf + data.len;
    const unsigned char *place = start, *after = start;
    Py_ssize_t size = form.layout == RECORDS ? RECORD_HEAD : 0;
    limit = limit < 0 ? 0 : limit;
    int why;
    while ((why = next_stored(&after, end, &message)) == GOES_ON) {
        Py_ssize_t cost = beside(&form) + headers_bytes(&form, &message) + message.payload_size;
        if (count == most || cost > limit - size || !add_origin(&form, &message, count == 0)) {
            why = FULL;
            break;
        }
        size += cost;
        count++;
        place = after;
    }
    encoded = PyBytes_FromStringAndSize(NULL, count > 0 ? size : 0);
    if (encoded == NULL)
        goto done;
    if (count > 0 && put_messages((unsigned char *)PyBytes_AsString(encoded), &form, start, end, count, size) < 0) {
        Py_DECREF(encoded);
        PyErr_NoMemory();
        goto done;
    }
    result = Py_BuildValue("Nnni", encoded, at + (place - start), count, why);
done:
    PyBuffer_Release(&data);
    return result;
}

/* Messages of a poll -> events -----------------------------------------------------------------*/

/* Begin at the first message of a poll, or of a record; return what is wrong with it. */
static int
open_polled(struct messages *messages, const unsigned char *at, const unsigned char *end)
{
    messages->at = at;
    messages->end = end;
    if (messages->layout != RECORDS)
        return NONE;
    if (end - at < RECORD_HEAD)
        return LENGTH;
    uint64_t length = load_u64(at + 32);
    if (length < RECORD_HEAD || length > (uint64_t)(end - at))
        return LENGTH;
    open_record(messages, at);
    messages->end = at + length;
    return messages->count == 0 ? COUNT : NONE;
}

static int
next_polled(struct messages *messages, struct message *message)
{
    if (messages->layout == CLASSIC)
        return next_classic(messages, message, 0);
    if (messages->layout != RECORDS)
        return next_polled_head(messages, message);
    uint32_t delta;
    int fault = next_frame(messages, message, &delta);
    if (fault == NONE && messages->number == 1)
        messages->first = delta;
    return fault == NONE && messages->first + (uint64_t)messages->number - 1 != delta ? DELTA : fault;
}

/* Messages that were checked: *count* with offsets from *first* on, *bytes* of payload, up to *end*. */
struct run {
    uint64_t first;
    Py_ssize_t count, bytes;
    const unsigned char *end;
};

/* Extend *run* as far as offsets rise by one; return what is wrong with the next message, or NONE. */
static int
check_run(struct messages messages, struct run *run)
{
    struct message message;
    int fault;
    while ((fault = next_polled(&messages, &message)) == NONE) {
        if (!is_sound(&message, messages.layout))
            return MESSAGE_SUM;
        if (run->count == 0)
            run->first = message.offset;
        else if (message.offset != run->first + (uint64_t)run->count)
            return NONE;
        run->count++;
        run->bytes += message.payload_size;
        run->end = messages.at;
    }
    return fault == AT_END ? NONE : fault;
}

/* As check_run, for a whole record or nothing. Return -1 without memory. */
static int
check_record(const struct messages *messages, struct run *run)
{
    struct run found = *run;
    uint64_t sum;
    int fault = check_run(*messages, &found);
    if (fault != NONE)
        return fault;
    if (record_sum(messages->start, messages->count, &sum) < 0)
        return -1;
    if (sum != load_u64(messages->start + 40))
        return BATCH_SUM;
    *run = found;
    return NONE;
}

PyDoc_STRVAR(cut_messages_doc, "As `iggy_plain.cut_messages`.");

static PyObject *
cut_messages(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at;
    struct messages messages = {0};
    struct message message;
    if (!PyArg_ParseTuple(args, "iy*n", &messages.layout, &data, &at))
        return NULL;
    PyObject *result = NULL, *events = NULL;
    if (at < 0 || at > data.len) {
        PyErr_SetString(PyExc_ValueError, "no message there");
        goto done;
    }
    const unsigned char *start = (const unsigned char *)data.buf + at;
    struct run run = {0, 0, 0, start};
    int fault = open_polled(&messages, start, (const unsigned char *)data.buf + data.len);
    if (fault == NONE)
        fault = messages.layout == RECORDS ? check_record(&messages, &run) : check_run(messages, &run);
    if (fault < 0) {
        PyErr_NoMemory();
        goto done;
    }
    events = PyBytes_FromStringAndSize(NULL, run.bytes + EVENT_HEAD * run.count);
    if (events == NULL)
        goto done;
    unsigned char *to = (unsigned char *)PyBytes_AsString(events);
    for (Py_ssize_t i = 0; i < run.count && next_polled(&messages, &message) == NONE; i++) {
        to = put_event_head(to, message.payload_size);
        to = put(to, message.payload, message.payload_size);
    }
    result = Py_BuildValue("NKnni", events, (unsigned long long)run.first, run.count, at + (run.end - start), fault);
done:
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {
    {"frame_messages", frame_messages, METH_VARARGS, frame_messages_doc},
    {"encode_messages", encode_messages, METH_VARARGS, encode_messages_doc},
    {"cut_messages", cut_messages, METH_VARARGS, cut_messages_doc},
    {NULL, NULL, 0, NULL},
};

static int
prepare(PyObject *Py_UNUSED(module))
{
    fill_crc_tables();
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "logdrive.kernel._iggy_loops", "The loops that run once per message of Iggy's protocol, compiled.",
    0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__iggy_loops(void)
{
    return PyModuleDef_Init(&module);
}
