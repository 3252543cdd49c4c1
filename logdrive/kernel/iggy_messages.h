/* Iggy's messages, read one after the other: as they are sent, as they are polled, and as they are
 * stored. The layouts are those of iggy_forms.py, whose names and numbers are repeated here.
 */
#ifndef LOGDRIVE_IGGY_MESSAGES_H
#define LOGDRIVE_IGGY_MESSAGES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "iggy_sums.h"

/* layouts */
enum { CLASSIC, HEAD_56, HEAD_64, RECORDS };
/* why encode_messages has stopped; GOES_ON: it has not */
enum { GOES_ON = -1, OVER, FULL, BROKEN, OTHER };
/* what is wrong with messages; AT_END: nothing, and there are no more */
enum {
    AT_END = -1, NONE, COUNT, CUT, INDEX, LEFT, OFFSET, TIMESTAMP, RESERVED, DELTA, LENGTH,
    MESSAGE_SUM, BATCH_SUM, HEADERS_LONG, HEADER_KEY, HEADER_VALUE, HEADER_KIND, PAYLOAD_LONG,
    PAYLOAD_EMPTY
};

#define EVENT_HEAD 8 /* a Pravega event: type 0, length, big-endian */
#define ID_BYTES 16
#define ENVELOPE_HEAD 32 /* magic, id, origin, length of the user headers */
#define MAGIC "\xFFIG\x01"
#define MAGIC_BYTES 4
#define INDEX_ENTRY 16
#define RECORD_HEAD 256
#define RECORD_FIELDS 52 /* the rest is reserved */
#define FRAME_HEAD 48
#define CLASSIC_HEAD 41 /* of a polled message: offset, state, time, id, checksum, length */
#define CLASSIC_SENT 20 /* of a sent one: id, length */
#define STRING 2
#define KINDS 15
#define FIELD_MOST 255

static const unsigned char NO_ID[ID_BYTES];

/* A message; its headers and its payload stand somewhere else. */
struct message {
    const unsigned char *id, *headers, *payload;
    Py_ssize_t headers_size, payload_size;
    uint64_t offset, time, origin;
    /* what its checksum covers; nothing if *summed* is NULL */
    const unsigned char *summed;
    Py_ssize_t summed_size;
    uint64_t sum;
};

/* Messages that are left. */
struct messages {
    int layout;
    const unsigned char *at, *end;
    /* those of a record, or with an index: the next one's number, and how many they are */
    Py_ssize_t number, count;
    const unsigned char *start, *index;
    /* of a record */
    uint64_t offset, time, origin;
    uint32_t first;
};

static unsigned char *
put(unsigned char *to, const void *from, Py_ssize_t size)
{
    memcpy(to, from, (size_t)size);
    return to + size;
}

static unsigned char *
put_u32(unsigned char *to, uint32_t value)
{
    return put(to, &value, 4);
}

static unsigned char *
put_u64(unsigned char *to, uint64_t value)
{
    return put(to, &value, 8);
}

/* User headers ---------------------------------------------------------------------------------*/

/* Return where the field at *at* ends, a length and as many bytes; NULL if it is none. */
static const unsigned char *
field_end(const unsigned char *at, const unsigned char *end)
{
    if (end - at < 4)
        return NULL;
    uint32_t length = load_u32(at);
    return length == 0 || length > FIELD_MOST || (Py_ssize_t)length > end - at - 4 ? NULL : at + 4 + length;
}

static int
is_text(const unsigned char *at, const unsigned char *end)
{
    const unsigned char *byte = at;
    while (byte < end && *byte < 0x80)
        byte++;
    if (byte == end)
        return 1;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)at, end - at, "strict");
    if (text == NULL)
        PyErr_Clear();
    Py_XDECREF(text);
    return text != NULL;
}

/* Set *entries* to how many headers there are; return what is wrong with them. */
static int
headers_fault(const unsigned char *at, const unsigned char *end, int typed, Py_ssize_t *entries)
{
    *entries = 0;
    for (; at < end; (*entries)++) {
        unsigned char kind = typed ? *at++ : STRING;
        if (kind == 0 || kind > KINDS)
            return HEADER_KIND;
        const unsigned char *after = field_end(at, end);
        if (after == NULL || (kind == STRING && !is_text(at + 4, after)))
            return HEADER_KEY;
        at = after;
        if (at == end)
            return HEADER_VALUE;
        if (*at == 0 || *at > KINDS)
            return HEADER_KIND;
        at = field_end(at + 1, end);
        if (at == NULL)
            return HEADER_VALUE;
    }
    return NONE;
}

/* Return where the valid header at *at* ends. */
static const unsigned char *
entry_end(const unsigned char *at, int typed)
{
    at += typed;
    at += 4 + load_u32(at);
    at += 1;
    return at + 4 + load_u32(at);
}

/* Return the bytes of valid typed headers without the kinds of keys; with *to*, write them there.
 * Headers whose key is no text are left out.
 */
static Py_ssize_t
untyped_headers(const unsigned char *at, Py_ssize_t size, unsigned char *to)
{
    const unsigned char *end = at + size;
    Py_ssize_t left = 0;
    while (at < end) {
        const unsigned char *after = entry_end(at, 1);
        if (*at == STRING) {
            Py_ssize_t bytes = after - at - 1;
            if (to != NULL)
                memcpy(to + left, at + 1, (size_t)bytes);
            left += bytes;
        }
        at = after;
    }
    return left;
}

/* Messages of a send or of a poll -----------------------------------------------------------------*/

/* Set lengths and places of what follows a head: payload, headers. Return whether it is whole. */
static int
split_tail(struct message *message, const unsigned char *tail, const unsigned char *end, uint32_t headers, uint32_t payload)
{
    message->payload = tail;
    message->payload_size = (Py_ssize_t)payload;
    message->headers_size = (Py_ssize_t)headers;
    if (message->payload_size + message->headers_size > end - tail)
        return 0;
    message->headers = tail + payload;
    return 1;
}

/* Whether the message's checksum is right, if it has one. */
static int
is_sound(const struct message *message, int layout)
{
    size_t size = (size_t)message->summed_size;
    if (message->summed == NULL)
        return 1;
    return message->sum == (layout == CLASSIC ? crc_32(message->summed, size) : xxh3(message->summed, size));
}

/* Read a classic message: of a poll, or *sent*. */
static int
next_classic(struct messages *messages, struct message *message, int sent)
{
    const unsigned char *at = messages->at, *end = messages->end;
    Py_ssize_t head = sent ? CLASSIC_SENT : CLASSIC_HEAD;
    if (at == end)
        return AT_END;
    if (end - at < head)
        return CUT;
    message->id = sent ? at : at + 17;
    message->offset = sent ? 0 : load_u64(at);
    message->time = sent ? 0 : load_u64(at + 9);
    message->origin = 0;
    message->headers = at + head;
    message->headers_size = (Py_ssize_t)load_u32(at + head - 4);
    if (message->headers_size > end - message->headers - 4)
        return CUT;
    const unsigned char *length = message->headers + message->headers_size;
    message->payload = length + 4;
    message->payload_size = (Py_ssize_t)load_u32(length);
    if (message->payload_size > end - message->payload)
        return CUT;
    message->summed = sent ? NULL : message->payload;
    message->summed_size = message->payload_size;
    message->sum = sent ? 0 : load_u32(at + 33);
    messages->at = message->payload + message->payload_size;
    return NONE;
}

/* Read the head at *at*, which is whole, and what belongs to it; return whether that is whole. */
static int
read_head(struct message *message, const unsigned char *at, const unsigned char *end, Py_ssize_t head)
{
    message->sum = load_u64(at);
    message->id = at + 8;
    message->offset = load_u64(at + 24);
    message->time = load_u64(at + 32);
    message->origin = load_u64(at + 40);
    message->summed = at + 8;
    if (!split_tail(message, at + head, end, load_u32(at + 48), load_u32(at + 52)))
        return 0;
    message->summed_size = head - 8 + message->payload_size + message->headers_size;
    return 1;
}

static Py_ssize_t
head_bytes(int layout)
{
    return layout == HEAD_64 ? 64 : 56;
}

static int
next_polled_head(struct messages *messages, struct message *message)
{
    Py_ssize_t head = head_bytes(messages->layout);
    if (messages->at == messages->end)
        return AT_END;
    if (messages->end - messages->at < head || !read_head(message, messages->at, messages->end, head))
        return CUT;
    messages->at = message->summed + message->summed_size;
    return NONE;
}

/* Read a message that the index has an entry of. Its checksum means nothing. */
static int
next_sent_head(struct messages *messages, struct message *message)
{
    Py_ssize_t head = head_bytes(messages->layout);
    if (messages->number == messages->count)
        return messages->at == messages->end ? AT_END : LEFT;
    const unsigned char *entry = messages->index + INDEX_ENTRY * messages->number;
    if (load_u32(entry) != 0)
        return OFFSET;
    if (load_u64(entry + 8) != 0)
        return TIMESTAMP;
    Py_ssize_t end = (Py_ssize_t)load_u32(entry + 4);
    if (end > messages->end - messages->start || end - (messages->at - messages->start) < head)
        return INDEX;
    const unsigned char *after = messages->start + end;
    if (!read_head(message, messages->at, after, head) || message->headers + message->headers_size != after)
        return INDEX;
    message->summed = NULL;
    messages->at = after;
    messages->number++;
    return NONE;
}

/* Read a message of a record; its offset is a *delta*. */
static int
next_frame(struct messages *messages, struct message *message, uint32_t *delta)
{
    const unsigned char *at = messages->at;
    if (messages->number == messages->count)
        return at == messages->end ? AT_END : LEFT;
    if (messages->end - at < FRAME_HEAD)
        return CUT;
    if (load_u64(at + 40) != 0)
        return RESERVED;
    if (!split_tail(message, at + FRAME_HEAD, messages->end, load_u32(at + 32), load_u32(at + 36)))
        return CUT;
    message->sum = load_u64(at);
    message->id = at + 8;
    *delta = load_u32(at + 24);
    message->offset = messages->offset + *delta;
    message->time = messages->time;
    message->origin = messages->origin + load_u32(at + 28);
    message->summed = at + 8;
    message->summed_size = FRAME_HEAD - 8 + message->payload_size + message->headers_size;
    messages->at = message->headers + message->headers_size;
    messages->number++;
    return NONE;
}

static int
is_zero(const unsigned char *at, Py_ssize_t size)
{
    while (size > 0 && at[size - 1] == 0)
        size--;
    return size == 0;
}

/* Read the head of the record at *at*, which is whole. */
static void
open_record(struct messages *messages, const unsigned char *at)
{
    messages->start = at;
    messages->at = at + RECORD_HEAD;
    messages->offset = load_u64(at + 8);
    messages->time = load_u64(at + 16);
    messages->origin = load_u64(at + 24);
    messages->number = 0;
    messages->count = (Py_ssize_t)load_u32(at + 48);
}

/* Set *sum* to the checksum of the record at *record*, from that of its valid frames. */
static int
record_sum(const unsigned char *record, Py_ssize_t count, uint64_t *sum)
{
    Py_ssize_t size = 44 + 8 * count;
    unsigned char *covered = PyMem_Malloc((size_t)size), *to = covered;
    if (covered == NULL)
        return -1;
    memcpy(to, record, 40); /* partition, offset, time, origin, length */
    memcpy(to + 40, record + 48, 4);
    to += 44;
    const unsigned char *at = record + RECORD_HEAD;
    for (Py_ssize_t i = 0; i < count; i++, to += 8) {
        memcpy(to, at, 8);
        at += FRAME_HEAD + (Py_ssize_t)load_u32(at + 32) + (Py_ssize_t)load_u32(at + 36);
    }
    *sum = xxh3(covered, (size_t)size);
    PyMem_Free(covered);
    return 0;
}

/* Stored events ------------------------------------------------------------------------------------*/

static uint32_t
load_big_u32(const unsigned char *at)
{
    return __builtin_bswap32(load_u32(at));
}

/* Set *message* to the one that is stored as the event at *at*, and *at* behind it. */
static int
next_stored(const unsigned char **at, const unsigned char *end, struct message *message)
{
    if (end - *at < EVENT_HEAD)
        return OVER;
    uint32_t length = load_big_u32(*at + 4);
    if (load_u32(*at) != 0 || length > INT32_MAX)
        return BROKEN;
    const unsigned char *body = *at + EVENT_HEAD;
    if ((Py_ssize_t)length > end - body)
        return OVER;
    const unsigned char *after = body + length;
    message->id = NO_ID;
    message->origin = 0;
    message->headers = body;
    message->headers_size = 0;
    message->payload = body;
    if (length > 0 && *body == 0xFF) {
        if (length < ENVELOPE_HEAD || memcmp(body, MAGIC, MAGIC_BYTES) != 0)
            return OTHER;
        Py_ssize_t headers = (Py_ssize_t)load_u32(body + 28), entries;
        message->headers = body + ENVELOPE_HEAD;
        if (headers > after - message->headers)
            return OTHER;
        message->payload = message->headers + headers;
        if (headers_fault(message->headers, message->payload, 1, &entries) != NONE)
            return OTHER;
        message->headers_size = headers;
        message->id = body + MAGIC_BYTES;
        message->origin = load_u64(body + 20);
    }
    message->payload_size = after - message->payload;
    *at = after;
    return GOES_ON;
}

#endif
