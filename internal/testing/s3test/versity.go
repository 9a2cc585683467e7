package s3test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Versity starts versitygw, an object store in use, on an empty folder, and returns what Getenv of a Server is. The test
// is skipped where it is not installed. GORUN_VERSITYGW may name its executable; that is built within a few minutes:
// go install github.com/versity/versitygw/cmd/versitygw@v1.8.0.
func Versity(t testing.TB) (getenv func(string) string) {
	t.Helper()
	_, socket := VersitySocket(t)
	return (&Server{URL: front(t, socket)}).Getenv
}

// VersitySocket is Versity for those who dial the Unix socket themselves.
func VersitySocket(t testing.TB) (getenv func(string) string, socket string) {
	t.Helper()
	program := os.Getenv("GORUN_VERSITYGW")
	if program == "" {
		program = "versitygw"
	}
	program, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no versitygw: %v (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0, and set GORUN_VERSITYGW)", err)
	}
	dir, err := os.MkdirTemp("", "gorun-s3-") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var data string
	socket, data = filepath.Join(dir, "socket"), filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--quiet", "--port", socket, "posix", data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+KeyID, "ROOT_SECRET_KEY="+Secret)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	if err := listens(t.Context(), socket, ended); err != nil {
		t.Fatalf("%s: %v: %v", program, err, cmd.ProcessState)
	}
	return (&Server{URL: "http://versitygw"}).Getenv, socket
}

// listens waits until somebody listens on a socket, or has ended.
func listens(ctx context.Context, socket string, ended <-chan struct{}) error {
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return errors.New("it has ended and does not listen")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// front passes requests on to a socket as they are, on a port that the kernel has chosen.
func front(t testing.TB, socket string) string {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	p := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL = rewritten(r.In.URL) },
		Transport: &http.Transport{DialContext: dial, DisableCompression: true},
	}
	h := httptest.NewServer(p)
	t.Cleanup(h.Close)
	return h.URL
}

func rewritten(u *url.URL) *url.URL {
	out := *u
	out.Scheme, out.Host = "http", "versitygw"
	return &out
}
