/* Ends a process, as SIGKILL does, before one of its operations that change files.
 *
 * Loaded before the C library it stands in for these calls, and counts those that are about
 * something below the directory KILL_BELOW. A sync is none: what is written outlives the process.
 * Each is added to the file KILL_LOG, as a line "what path", if one is named; the one of the number
 * KILL_BEFORE, counted from 1, is not done any more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long count;
static long before;
static const char *below, *log_path;

__attribute__((constructor)) static void
read_environment(void)
{
    const char *number = getenv("KILL_BEFORE");
    before = number ? atol(number) : 0;
    below = getenv("KILL_BELOW");
    log_path = getenv("KILL_LOG");
}

static void
pass(const char *what, const char *path)
{
    if (!below || !path || strncmp(path, below, strlen(below)))
        return;
    long number = atomic_fetch_add(&count, 1) + 1;
    FILE *log = log_path ? fopen(log_path, "a") : NULL;
    if (log) {
        fprintf(log, "%s %s\n", what, path);
        fclose(log);
    }
    if (number == before) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

static void
pass_handle(const char *what, int handle)
{
    char link[64], path[4096];
    if (!below)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 0) {
        path[size] = 0;
        pass(what, path);
    }
}

#define REAL(name)                                                                                 \
    static __typeof__(&name) real;                                                                 \
    if (!real)                                                                                     \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Of opens only those that may make a file. */
#define MODE(flags)                                                                                \
    mode_t mode = 0;                                                                               \
    if ((flags) & O_CREAT) {                                                                       \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = (mode_t)va_arg(more, int);                                                          \
        va_end(more);                                                                              \
        pass("create", path);                                                                      \
    }

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        REAL(name);                                                                                \
        MODE(flags)                                                                                \
        return real(path, flags, mode);                                                            \
    }

#define OPEN_AT(name)                                                                              \
    int name(int directory, const char *path, int flags, ...)                                      \
    {                                                                                              \
        REAL(name);                                                                                \
        MODE(flags)                                                                                \
        return real(directory, path, flags, mode);                                                 \
    }

#define BY_HANDLE(type, name, what, parameters, ...)                                               \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        pass_handle(what, handle);                                                                 \
        return real(__VA_ARGS__);                                                                  \
    }

#define BY_PATH(name, what, parameters, ...)                                                       \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(name);                                                                                \
        pass(what, path);                                                                          \
        return real(__VA_ARGS__);                                                                  \
    }

OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)
BY_PATH(mkdir, "mkdir", (const char *path, mode_t mode), path, mode)
BY_PATH(rmdir, "rmdir", (const char *path), path)
BY_PATH(unlink, "unlink", (const char *path), path)
BY_PATH(unlinkat, "unlink", (int in, const char *path, int flags), in, path, flags)
BY_PATH(rename, "rename", (const char *old, const char *path), old, path)
BY_PATH(renameat, "rename", (int from, const char *old, int to, const char *path), from, old, to,
        path)
BY_PATH(link, "link", (const char *old, const char *path), old, path)
BY_PATH(linkat, "link", (int from, const char *old, int to, const char *path, int flags), from, old,
        to, path, flags)
BY_PATH(symlink, "symlink", (const char *old, const char *path), old, path)
BY_HANDLE(int, ftruncate64, "truncate", (int handle, off64_t size), handle, size)
BY_HANDLE(ssize_t, write, "write", (int handle, const void *data, size_t size), handle, data, size)
BY_HANDLE(ssize_t, pwrite64, "write", (int handle, const void *data, size_t size, off64_t at),
          handle, data, size, at)
