package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// elsewhere is another house, of the user who runs the test: another machine, as far as snapshots go.
func elsewhere(t *testing.T) *house {
	h := newHouse(t)
	h.ckpt = filepath.Join(t.TempDir(), "elsewhere")
	return h
}

// takeIn exports a snapshot, removes all that the first house has, and imports it into another.
func (h *house) takeIn(to *house, schema string, gone ...string) string {
	h.t.Helper()
	file := filepath.Join(h.folder("out"), "snapshot.tar.zst")
	if out := h.must("snapshots", "-export", file, schema); out != file+"\n" {
		h.t.Errorf("-export says %q", out)
	}
	for _, path := range append(gone, h.ckpt) {
		if err := os.RemoveAll(path); err != nil {
			h.t.Fatal(err)
		}
	}
	if _, errs, code := to.gorun("snapshots", "-import", file); os.Getuid() == 0 && (code != 1 || !strings.Contains(errs, "-trust")) {
		h.t.Errorf("a parcel of another user is taken in: exit %d\n%s", code, errs)
	}
	schema = strings.TrimSpace(to.must("snapshots", "-trust", "-import", file))
	if err := os.Remove(file); err != nil {
		h.t.Fatal(err)
	}
	if !strings.HasPrefix(schema, to.ckpt) {
		h.t.Fatalf("it is in %s", schema)
	}
	return schema
}

// TestNativeElsewhere restarts an incremental snapshot in another folder, as another user, when the first one, its
// program and its working folder are gone; also under a debugger.
func TestNativeElsewhere(t *testing.T) {
	h := nativeHouse(t)
	program := filepath.Join(h.folder("programs"), "subject")
	text, err := os.ReadFile(filepath.Join(bin, "subject"))
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := h.folder("stage")
	first := h.nativeRun(3, []string{"-ckpt-full-every", "4", "-rpi", "shm"}, program, "-dir", dir, "ring")
	first.inPlace(3)
	first.checkpoint()
	schema := first.checkpoint("-stop")
	first.wait()
	if incrementals(t) && len(readSchema(t, schema).Bases()) == 0 {
		t.Error("the second snapshot is full")
	}
	h.signal(dir, "go")
	to := elsewhere(t)
	schema = h.takeIn(to, schema, program)
	digest(t, to.must("restart", "-rpi", "tcp", schema))
	p := to.start("restart", "-debug", "1", schema)
	if !p.errs.wait("dlv attach", 1) {
		t.Fatalf("nobody tells how to debug:\n%s", p.errs)
	}
	pid, _ := strconv.Atoi(debugLine.FindStringSubmatch(p.errs.String())[1])
	if exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err != nil || !strings.HasPrefix(exe, to.ckpt) {
		t.Errorf("the rank that is held runs %s, %v", exe, err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.errs)
	}
	digest(t, p.out.String())
}

// TestLibrariesElsewhere restarts a program that knows nothing of gorun when the library that it maps and the program of its child process are
// gone: the image has the one, which is small, and the parcel the other. What goes on there has that in its own snapshots, too.
func TestLibrariesElsewhere(t *testing.T) {
	h := nativeHouse(t)
	own := h.folder("programs")
	from := map[string]string{"outer": "/bin/sh", "inner": "/bin/sh", "libc.so.6": "/lib/x86_64-linux-gnu/libc.so.6"}
	for name, path := range from {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Skip(err)
		}
		if err := os.WriteFile(filepath.Join(own, name), append(text, name...), 0o755); err != nil { // no other file has this content
			t.Fatal(err)
		}
	}
	dir := h.folder("stage")
	const script = `
		LD_LIBRARY_PATH=$1 $1/inner -c 'n=0; while [ ! -e "$0/go" ]; do n=$((n+1)); echo $n; LD_LIBRARY_PATH= sleep 0.01; done; echo end' "$0" | {
			last=0
			while read x; do
				[ "$x" = end ] && { echo "no step is missing" >&2; exit 0; }
				[ "$x" = $((last+1)) ] || { echo "step $x follows $last" >&2; exit 5; }
				[ "$x" = 20 ] && echo "step 20" >&2
				last=$x
			done
		}`
	r := h.nativeRun(1, []string{"-env", "LD_LIBRARY_PATH=" + own}, filepath.Join(own, "outer"), "-c", script, dir, own)
	if !r.errs.wait("step 20", 1) {
		t.Fatal(r.errs)
	}
	schema := r.checkpoint("-stop")
	r.wait()
	to := elsewhere(t)
	schema = h.takeIn(to, schema, own)
	for range 2 {
		again := to.restart(schema)
		schema = again.checkpoint("-stop")
		again.wait()
		if kept := readSchema(t, schema).Program.Libraries; len(kept) < 2 {
			t.Errorf("kept are %v", kept)
		}
	}
	h.signal(dir, "go")
	r = to.restart(schema)
	if code := r.wait(); code != 0 || !r.errs.wait("no step is missing", 1) {
		t.Errorf("exit %d: %s", code, r.errs)
	}
}

// TestMappedElsewhere restarts a program that has a large file mapped which is gone, of which it has written to one page only: the parcel
// has the file, and the image that page. What goes on there has both in its own snapshots, too.
func TestMappedElsewhere(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	h := nativeHouse(t)
	own, dir := h.folder("programs"), h.folder("stage")
	data := make([]byte, 12<<20) // images have smaller ones whole
	for i := range data {
		data[i] = byte(i>>12 + i*7)
	}
	copy(data, own) // no other file has this content
	path := filepath.Join(own, "table")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `
import ctypes, hashlib, os, sys, time
path, dir, size = sys.argv[1], sys.argv[2], 12 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open(path, os.O_RDONLY)
at = libc.mmap(None, size, 3, 2, fd, 0)
os.close(fd)
table = (ctypes.c_char * size).from_address(at)
table[5000] = b"!"
print("here", 0, file=sys.stderr, flush=True)
while not os.path.exists(dir + "/go"):
    time.sleep(0.01)
print("content", hashlib.sha256(table).hexdigest(), file=sys.stderr, flush=True)
`
	r := h.nativeRun(1, nil, python, "-c", script, path, dir)
	r.inPlace(1)
	schema := r.checkpoint("-stop")
	r.wait()
	to := elsewhere(t)
	schema = h.takeIn(to, schema, own)
	again := to.restart(schema)
	schema = again.checkpoint("-stop")
	again.wait()
	h.signal(dir, "go")
	r = to.restart(schema)
	data[5000] = '!'
	if want := fmt.Sprintf("content %x", sha256.Sum256(data)); r.wait() != 0 || !r.errs.wait(want, 1) {
		t.Errorf("it was to say %s:\n%s", want, r.errs)
	}
}

// TestPortableElsewhere does so with portable images, from a folder where they are sealed.
func TestPortableElsewhere(t *testing.T) {
	h := ownHouse(t)
	key := filepath.Join(h.folder("keys"), "key")
	h.must("key", key)
	program := filepath.Join(h.folder("programs"), "solver")
	text, err := os.ReadFile(filepath.Join(bin, "solver"))
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	problem := append([]string{"-np", "2", program}, append(shortRun, "-slow", "10ms")...)
	want := digest(t, h.must(problem...))
	schema := h.stopped("-cr=self", append([]string{"-ckpt-key", key}, problem...))
	h.clean()
	to := elsewhere(t)
	file := filepath.Join(h.folder("sealed"), "s.tar.zst")
	h.must("snapshots", "-export", file, schema)
	if _, errs, code := to.gorun("snapshots", "-import", file); code != 1 || !strings.Contains(errs, "-ckpt-key names no key file") {
		t.Errorf("without a key: exit %d, %s", code, errs)
	}
	sealed := strings.TrimSpace(to.must("snapshots", "-ckpt-key", key, "-import", file))
	text, err = os.ReadFile(sealed)
	if err != nil || !strings.Contains(string(text), `store = "dir+sealed"`) {
		t.Errorf("%s\n%v", text, err)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if got := digest(t, to.must("restart", sealed)); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	h.clean()
}
