// Sockets.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static int intOption(int fd, int level, int name) {
	int v = -1;
	socklen_t n = sizeof v;
	HAVE(getsockopt(fd, level, name, &v, &n));
	return v;
}
static struct sockaddr_in local(int port) {
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
static struct sockaddr_in nameOf(int fd) {
	struct sockaddr_in a;
	socklen_t n = sizeof a;
	HAVE(getsockname(fd, (void *)&a, &n));
	return a;
}
static int bound(int type) {
	int fd = HAVE(socket(AF_INET, type, 0));
	struct sockaddr_in a = local(0);
	HAVE(bind(fd, (void *)&a, sizeof a));
	return fd;
}

static void unbound_sock(void) {
	int fd = HAVE(socket(AF_INET, SOCK_STREAM, 0)), six = socket(AF_INET6, SOCK_DGRAM, 0);
	moment();
	CHECK(intOption(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET && intOption(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	if (six >= 0) CHECK(intOption(six, SOL_SOCKET, SO_DOMAIN) == AF_INET6 && intOption(six, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM);
}
static void sk_unix_unconn(void) {
	int a = HAVE(socket(AF_UNIX, SOCK_STREAM, 0)), b = HAVE(socket(AF_UNIX, SOCK_DGRAM, 0)), c = HAVE(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	moment();
	CHECK(intOption(a, SOL_SOCKET, SO_DOMAIN) == AF_UNIX && intOption(a, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK(intOption(b, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM && intOption(c, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET);
}

static void talk(int a, int b) {
	char c[32];
	CHECK(write(a, "ping", 4) == 4 && read(b, c, 32) == 4 && !memcmp(c, "ping", 4));
	CHECK(write(b, "pong!", 5) == 5 && read(a, c, 32) == 5 && !memcmp(c, "pong!", 5));
}
static void sockets_spair(void) {
	int p[2];
	HAVE(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	moment();
	talk(p[0], p[1]);
	close(p[0]);
	char c;
	CHECK(read(p[1], &c, 1) == 0);
}
static void sockets_dgram(void) {
	int p[2];
	HAVE(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
	moment();
	talk(p[0], p[1]);
}
static void sockets01(void) { // something is on its way, both ways
	int p[2];
	unsigned char b[9000];
	HAVE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p));
	fill(b, sizeof b);
	CHECK(write(p[0], b, sizeof b) == sizeof b && write(p[1], "back", 4) == 4);
	moment();
	memset(b, 0, sizeof b);
	CHECK(recv(p[1], b, sizeof b, MSG_WAITALL) == sizeof b && filled(b, sizeof b));
	CHECK(read(p[0], b, 100) == 4 && !memcmp(b, "back", 4));
	CHECK(read(p[0], b, 100) == -1 && errno == EAGAIN);
	talk(p[0], p[1]);
}
static void queues(int type) {
	int p[2];
	char c[64];
	HAVE(socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, p));
	CHECK(write(p[0], "one", 3) == 3 && write(p[0], "second", 6) == 6 && write(p[0], "3", 1) == 1);
	moment();
	CHECK(read(p[1], c, 64) == 3 && read(p[1], c, 64) == 6 && !memcmp(c, "second", 6) && read(p[1], c, 64) == 1);
	CHECK(read(p[1], c, 64) == -1 && errno == EAGAIN);
	talk(p[0], p[1]);
}
static void socket_queues(void) { queues(SOCK_DGRAM); }
static void socket_queues02(void) { queues(SOCK_SEQPACKET); }
static void sockets02(void) { // one side has shut down
	int p[2];
	char c[8];
	HAVE(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	CHECK(write(p[0], "end", 3) == 3);
	HAVE(shutdown(p[0], SHUT_WR));
	moment();
	CHECK(read(p[1], c, 8) == 3 && read(p[1], c, 8) == 0 && write(p[1], "x", 1) == 1 && read(p[0], c, 8) == 1);
}
static void sockets03(void) { // the other side is closed
	int p[2];
	char c[8];
	HAVE(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	CHECK(write(p[0], "last", 4) == 4);
	close(p[0]);
	moment();
	CHECK(read(p[1], c, 8) == 4 && read(p[1], c, 8) == 0);
}

static void sendFD(int s, int fd) {
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } u = {.h = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec v = {"f", 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof u};
	memcpy(CMSG_DATA(&u.h), &fd, sizeof fd);
	CHECK(sendmsg(s, &m, 0) == 1);
}
static int recvFD(int s) {
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } u = {0};
	char c;
	int fd;
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof u};
	CHECK(recvmsg(s, &m, 0) == 1 && m.msg_controllen >= CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(&u.h), sizeof fd);
	return fd;
}
static void scm00(void) { // a descriptor that the process has not closed
	int p[2], e[2];
	char c;
	HAVE(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	HAVE(pipe(e));
	sendFD(p[0], e[0]);
	moment();
	int fd = recvFD(p[1]);
	CHECK(write(e[1], "q", 1) == 1 && read(fd, &c, 1) == 1 && c == 'q');
}
static void scm01(void) { // one that lies in the queue alone
	int p[2], e[2];
	char c;
	HAVE(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
	HAVE(pipe(e));
	sendFD(p[0], e[0]);
	close(e[0]);
	moment();
	int fd = recvFD(p[1]);
	CHECK(write(e[1], "q", 1) == 1 && read(fd, &c, 1) == 1 && c == 'q');
}

static struct sockaddr_un un(const char *path, int abstract) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (abstract) snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s-%d-%ld", path, (int)getpid(), (long)time(NULL));
	else strcpy(a.sun_path, path);
	return a;
}
static void listening(int abstract, int type) {
	struct sockaddr_un a = un("sock", abstract);
	int fd = HAVE(socket(AF_UNIX, type, 0));
	HAVE(bind(fd, (void *)&a, sizeof a));
	HAVE(listen(fd, 5));
	moment();
	int c = HAVE(socket(AF_UNIX, type, 0));
	HAVE(connect(c, (void *)&a, sizeof a));
	talk(c, HAVE(accept(fd, NULL, NULL)));
}
static void sockets00(void) { listening(0, SOCK_STREAM); }
static void sk_unix_listen01(void) { listening(1, SOCK_SEQPACKET); }
static void sk_unix_accepted(void) { // both ends of a connection to its own name
	struct sockaddr_un a = un("accepted", 1);
	int fd = HAVE(socket(AF_UNIX, SOCK_STREAM, 0)), c = HAVE(socket(AF_UNIX, SOCK_STREAM, 0));
	HAVE(bind(fd, (void *)&a, sizeof a));
	HAVE(listen(fd, 5));
	HAVE(connect(c, (void *)&a, sizeof a));
	int s = HAVE(accept(fd, NULL, NULL));
	moment();
	talk(c, s);
}
static void sk_unix_waiting(void) { // a connection that nobody has accepted yet
	struct sockaddr_un a = un("waiting", 1);
	int fd = HAVE(socket(AF_UNIX, SOCK_STREAM, 0)), c = HAVE(socket(AF_UNIX, SOCK_STREAM, 0));
	HAVE(bind(fd, (void *)&a, sizeof a));
	HAVE(listen(fd, 5));
	HAVE(connect(c, (void *)&a, sizeof a));
	moment();
	talk(c, HAVE(accept(fd, NULL, NULL)));
}
static void sk_unix_dgram(void) { // two that know each other by name
	struct sockaddr_un a = un("one", 0), b = un("two", 1);
	int x = HAVE(socket(AF_UNIX, SOCK_DGRAM, 0)), y = HAVE(socket(AF_UNIX, SOCK_DGRAM, 0));
	HAVE(bind(x, (void *)&a, sizeof a));
	HAVE(bind(y, (void *)&b, sizeof b));
	HAVE(connect(x, (void *)&b, sizeof b));
	moment();
	char c[8];
	CHECK(write(x, "dg", 2) == 2 && read(y, c, 8) == 2);
	CHECK(sendto(y, "back", 4, 0, (void *)&a, sizeof a) == 4 || errno == EPERM);
}
static void del_standalone_un(void) { // bound to a name that was removed
	struct sockaddr_un a = un("gone", 0), now;
	socklen_t n = sizeof now;
	int x = HAVE(socket(AF_UNIX, SOCK_DGRAM, 0));
	HAVE(bind(x, (void *)&a, sizeof a));
	HAVE(unlink("gone"));
	moment();
	CHECK(!getsockname(x, (void *)&now, &n) && !strcmp(now.sun_path, "gone"));
}

static void socket_listen(void) {
	int fd = bound(SOCK_STREAM);
	HAVE(listen(fd, 7));
	struct sockaddr_in a = nameOf(fd);
	moment();
	int c = HAVE(socket(AF_INET, SOCK_STREAM, 0));
	HAVE(connect(c, (void *)&a, sizeof a));
	talk(c, HAVE(accept(fd, NULL, NULL)));
}
static void socket_listen6(void) {
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET6, SOCK_STREAM, 0), on = 1;
	if (fd < 0) return moment(); // none here
	HAVE(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
	if (bind(fd, (void *)&a, n)) return moment();
	HAVE(listen(fd, 7));
	HAVE(getsockname(fd, (void *)&a, &n));
	moment();
	int c = HAVE(socket(AF_INET6, SOCK_STREAM, 0));
	HAVE(connect(c, (void *)&a, sizeof a));
	talk(c, HAVE(accept(fd, NULL, NULL)));
}
static void socket_udp(void) {
	int x = bound(SOCK_DGRAM), y = bound(SOCK_DGRAM);
	struct sockaddr_in a = nameOf(x);
	HAVE(connect(y, (void *)&a, sizeof a));
	moment();
	char c[8];
	struct sockaddr_in from, peer;
	socklen_t n = sizeof from;
	CHECK(nameOf(x).sin_port == a.sin_port && !getpeername(y, (void *)&peer, &n) && peer.sin_port == a.sin_port);
	CHECK(write(y, "dg", 2) == 2 && recvfrom(x, c, 8, 0, (void *)&from, &n) == 2 && from.sin_port == nameOf(y).sin_port);
}
static void socket_udp_shutdown(void) {
	int x = bound(SOCK_DGRAM);
	struct sockaddr_in a = nameOf(x);
	HAVE(connect(x, (void *)&a, sizeof a));
	HAVE(shutdown(x, SHUT_RD));
	moment();
	char c;
	CHECK(recv(x, &c, 1, MSG_DONTWAIT) <= 0 && nameOf(x).sin_port == a.sin_port);
}
static void sock_opts00(void) {
	int fd = HAVE(socket(AF_INET, SOCK_STREAM, 0)), on = 1, size = 40000;
	struct timeval t = {3, 500000}, now;
	socklen_t n = sizeof now;
	HAVE(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	HAVE(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
	HAVE(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
	HAVE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
	HAVE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
	size = intOption(fd, SOL_SOCKET, SO_RCVBUF);
	moment();
	CHECK(intOption(fd, SOL_SOCKET, SO_REUSEADDR) == 1 && intOption(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
	CHECK(intOption(fd, SOL_SOCKET, SO_RCVBUF) == size && intOption(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &now, &n) && now.tv_sec == 3 && now.tv_usec == 500000);
}
// Connections come back closed, which the program sees at once.
static void socket_tcp(void) {
	int fd = bound(SOCK_STREAM), c = HAVE(socket(AF_INET, SOCK_STREAM, 0));
	HAVE(listen(fd, 7));
	struct sockaddr_in a = nameOf(fd);
	HAVE(connect(c, (void *)&a, sizeof a));
	int s = HAVE(accept(fd, NULL, NULL));
	signal(SIGPIPE, SIG_IGN);
	moment();
	char x;
	errno = 0;
	if (write(c, "x", 1) == 1) return talk(c, s);
	CHECK(errno == EPIPE && read(s, &x, 1) == -1 && errno == ENOTCONN);
	printf("closed\n");
	fflush(stdout);
	_exit(0);
}
static void sk_netlink(void) {
	HAVE(socket(AF_NETLINK, SOCK_RAW, 0));
	moment();
}
static void packet_sock(void) {
	if (socket(AF_PACKET, SOCK_DGRAM, 0) < 0) HAVE(socket(AF_NETLINK, SOCK_RAW, 0)); // forbidden here
	moment();
}
static void sock_filter(void) {
	struct { unsigned short code; unsigned char jt, jf; unsigned k; } all = {6, 0, 0, 0xffffffff};
	struct { unsigned short len; void *filter; } prog = {1, &all};
	int fd = bound(SOCK_DGRAM);
	HAVE(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog));
	moment();
	socklen_t n = 0;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, NULL, &n) >= 0 && n == 1);
}

#define SOCKETS \
	S(unbound_sock) S(sk_unix_unconn) S(sockets_spair) S(sockets_dgram) S(sockets01) S(socket_queues) S(socket_queues02) S(sockets02) \
	S(sockets03) S(scm00) S(scm01) S(sockets00) S(sk_unix_listen01) S(sk_unix_accepted) S(sk_unix_waiting) S(sk_unix_dgram) \
	S(del_standalone_un) S(socket_listen) S(socket_listen6) S(socket_udp) S(socket_udp_shutdown) S(sock_opts00) S(socket_tcp) \
	S(sk_netlink) S(packet_sock) S(sock_filter)
