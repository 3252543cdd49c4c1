/* Stored messages, encoded as those of a poll or of a send: for iggy_loops.c. */
#ifndef LOGDRIVE_IGGY_ENCODING_H
#define LOGDRIVE_IGGY_ENCODING_H

#include "iggy_messages.h"

#define AVAILABLE 1 /* the state of every message */

/* What is encoded, and what its messages get. */
struct encoding {
    int layout, sent;
    unsigned long long offset, time, origin, seed, partition;
    /* of the messages' origins */
    uint64_t first, last;
};

/* Return the bytes of a message beside its headers and payload. */
static Py_ssize_t
beside(const struct encoding *form)
{
    if (form->layout == RECORDS)
        return FRAME_HEAD;
    if (form->layout == CLASSIC)
        return 4 + (form->sent ? CLASSIC_SENT : CLASSIC_HEAD);
    return head_bytes(form->layout) + (form->sent ? INDEX_ENTRY : 0);
}

static Py_ssize_t
headers_bytes(const struct encoding *form, const struct message *message)
{
    if (form->layout >= HEAD_64 || message->headers_size == 0)
        return message->headers_size;
    return untyped_headers(message->headers, message->headers_size, NULL);
}

static unsigned char *
put_headers(unsigned char *to, const struct encoding *form, const struct message *message)
{
    if (form->layout >= HEAD_64)
        return put(to, message->headers, message->headers_size);
    return to + untyped_headers(message->headers, message->headers_size, to);
}

/* Extend what is known of origins by that of *message*; return whether a record can have them all. */
static int
add_origin(struct encoding *form, const struct message *message, int is_first)
{
    uint64_t origin = message->origin != 0 ? message->origin : form->origin;
    uint64_t first = is_first || origin < form->first ? origin : form->first;
    uint64_t last = is_first || origin > form->last ? origin : form->last;
    if (form->layout == RECORDS && last - first > UINT32_MAX)
        return 0;
    form->first = first;
    form->last = last;
    return 1;
}

static unsigned char *
put_id(unsigned char *to, const struct encoding *form, const struct message *message, Py_ssize_t number)
{
    if (form->sent || memcmp(message->id, NO_ID, ID_BYTES) != 0)
        return put(to, message->id, ID_BYTES);
    return put_u64(put_u64(to, form->seed), form->offset + (uint64_t)number);
}

static unsigned char *
put_classic(unsigned char *to, const struct encoding *form, const struct message *message, Py_ssize_t number)
{
    if (!form->sent) {
        to = put_u64(to, form->offset + (uint64_t)number);
        *to++ = AVAILABLE;
        to = put_u64(to, form->time);
    }
    to = put_id(to, form, message, number);
    if (!form->sent)
        to = put_u32(to, crc_32(message->payload, (size_t)message->payload_size));
    to = put_u32(to, (uint32_t)headers_bytes(form, message));
    to = put_headers(to, form, message);
    to = put_u32(to, (uint32_t)message->payload_size);
    return put(to, message->payload, message->payload_size);
}

/* Write a message with a head, or a frame of a record. */
static unsigned char *
put_headed(unsigned char *to, const struct encoding *form, const struct message *message, Py_ssize_t number)
{
    unsigned char *sum = to;
    uint64_t origin = message->origin != 0 ? message->origin : form->origin;
    to = put_id(put_u64(to, 0), form, message, number);
    if (form->layout == RECORDS) {
        to = put_u32(to, (uint32_t)number);
        to = put_u32(to, (uint32_t)(origin - form->first));
    }
    else {
        to = put_u64(to, form->sent ? 0 : form->offset + (uint64_t)number);
        to = put_u64(to, form->sent ? 0 : form->time);
        to = put_u64(to, origin);
    }
    to = put_u32(to, (uint32_t)headers_bytes(form, message));
    to = put_u32(to, (uint32_t)message->payload_size);
    if (form->layout >= HEAD_64)
        to = put_u64(to, 0);
    to = put(to, message->payload, message->payload_size);
    to = put_headers(to, form, message);
    if (form->layout == RECORDS || !form->sent)
        put_u64(sum, xxh3(sum + 8, (size_t)(to - sum - 8)));
    return to;
}

/* Write the head of the record whose *count* frames stand behind it. */
static int
put_record_head(unsigned char *record, const struct encoding *form, Py_ssize_t size, Py_ssize_t count)
{
    uint64_t sum;
    memset(record, 0, RECORD_HEAD);
    unsigned char *to = put_u64(record, form->partition);
    to = put_u64(to, form->offset);
    to = put_u64(to, form->time);
    to = put_u64(to, form->first);
    to = put_u64(to, (uint64_t)size);
    put_u32(to + 8, (uint32_t)count);
    if (record_sum(record, count, &sum) < 0)
        return -1;
    put_u64(to, sum);
    return 0;
}

/* Write the *count* messages from *at* on, whose bytes are *size*. */
static int
put_messages(unsigned char *to, const struct encoding *form, const unsigned char *at, const unsigned char *end,
             Py_ssize_t count, Py_ssize_t size)
{
    unsigned char *start = to, *index = to;
    struct message message;
    int indexed = form->sent && (form->layout == HEAD_56 || form->layout == HEAD_64);
    if (form->layout == RECORDS)
        to += RECORD_HEAD;
    else if (indexed)
        to = start += INDEX_ENTRY * count;
    for (Py_ssize_t i = 0; i < count && next_stored(&at, end, &message) == GOES_ON; i++) {
        to = form->layout == CLASSIC ? put_classic(to, form, &message, i) : put_headed(to, form, &message, i);
        if (indexed)
            index = put_u64(put_u32(put_u32(index, 0), (uint32_t)(to - start)), 0);
    }
    return form->layout == RECORDS ? put_record_head(start, form, size, count) : 0;
}

#endif
