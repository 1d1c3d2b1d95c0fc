// First process of a guest: loads modules, mounts the host's root file system read-only and starts /bin/sh on it.
// The initramfs holds this program, /modules (in the order to load), /share (type and tag) and /start (script and its argument).
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/reboot.h>
#include <unistd.h>

#define ROOT "/newroot"
#define LINE 4096

static void stop(const char *what)
{
	printf("vm: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

// Returns the next line of `file` in `line`, without its end. Returns 0 at the end of the file.
static int next_line(FILE *file, char *line)
{
	if (!fgets(line, LINE, file))
		return 0;
	line[strcspn(line, "\n")] = 0;
	return 1;
}

static void load_modules(void)
{
	char path[LINE];
	FILE *list = fopen("/modules", "r");

	if (!list)
		return;
	while (next_line(list, path)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			printf("vm: module %s: %s\n", path, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	fclose(list);
}

static void mount_root(void)
{
	char type[LINE], tag[LINE], options[LINE];
	FILE *share = fopen("/share", "r");

	if (!share || !next_line(share, type) || !next_line(share, tag) || !next_line(share, options))
		stop("/share");
	fclose(share);
	mkdir(ROOT, 0755);
	if (mount(tag, ROOT, type, MS_RDONLY, options))
		stop("the shared root file system cannot be mounted");
	if (mount("devtmpfs", ROOT "/dev", "devtmpfs", 0, "") || mount("proc", ROOT "/proc", "proc", 0, "") ||
	    mount("sysfs", ROOT "/sys", "sysfs", 0, ""))
		stop("/dev, /proc or /sys cannot be mounted");
}

int main(void)
{
	char script[LINE], argument[LINE];
	FILE *start;

	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, "");
	int console = open("/dev/console", O_RDWR);

	if (console >= 0) {
		dup2(console, 0);
		dup2(console, 1);
		dup2(console, 2);
	}
	start = fopen("/start", "r");
	if (!start || !next_line(start, script) || !next_line(start, argument))
		stop("/start");
	fclose(start);
	load_modules();
	mount_root();
	if (chdir(ROOT) || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		stop("the root file system cannot be switched");
	execl("/bin/sh", "sh", script, argument, (char *)NULL);
	stop("/bin/sh");
}
