/* Preloaded into a server: logs the length of each file at its fsync to the file $LD_SYNCED. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int forced(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    int known = fstat(fd, &before) == 0; /* later writes may not be on the disk */
    int result = real(fd);
    const char *notes = getenv("LD_SYNCED");
    if (result == 0 && known && notes != NULL) {
        char link[64], path[4096], line[4200];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        int log = open(notes, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (length > 0 && log >= 0) {
            path[length] = 0;
            int size = snprintf(line, sizeof line, "%s %lld\n", path, (long long)before.st_size);
            if (write(log, line, (size_t)size) != size) abort();
        }
        if (log >= 0) close(log);
    }
    return result;
}

int fdatasync(int fd) { return forced("fdatasync", fd); }
int fsync(int fd) { return forced("fsync", fd); }
