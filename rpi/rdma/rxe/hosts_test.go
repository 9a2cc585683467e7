package rxe

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/guest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/rpi/rdma/ranktest"
)

// wired is set in the first of two guests on one wire.
const wired = "GORUN_WIRED"

// twoGuests runs TestHosts and TestReturn on two guests with one network and a shared folder.
func twoGuests(t *testing.T, k *guest.Kernel, files map[string]string, folder string, env []string) {
	if err := guest.Linked(files, "/bin/sh", "/usr/bin/wc", "/usr/bin/uname"); err != nil {
		t.Fatal(err)
	}
	o := guest.Options{Files: files, Wire: t.TempDir(), Folder: folder}
	ctx, cancel := context.WithCancel(t.Context())
	var said bytes.Buffer
	second := make(chan bool)
	go func() { // until the first is over
		defer close(second)
		o := equipped(o, &said)
		o.Host, o.Program, o.Args = 2, files["/bin/rsh"], []string{"-serve", guest.HostAddress(2)}
		_, err := guest.Run(ctx, k, o)
		fmt.Fprintln(&said, err)
	}()
	o.Host, o.Program, o.Args = 1, files[tests], []string{"-test.v", "-test.run=^(TestHosts|TestReturn)$"}
	o.Env = append(env, wired+"=1", "TMPDIR="+guest.Folder)
	run(t, k, o)
	cancel()
	<-second
	t.Logf("the second guest: %s", &said)
}

// TestHosts runs a job whose two ranks are on two hosts and speak over soft-RoCE, kills it, and has it go on over that, over soft and over TCP.
func TestHosts(t *testing.T) {
	if os.Getenv(wired) == "" {
		t.Skip("not one of two guests")
	}
	other := guest.HostAddress(2)
	testenv.Until(t, func() string {
		c, err := net.Dial("tcp", net.JoinHostPort(other, "514"))
		if err != nil {
			return err.Error()
		}
		c.Close()
		return ""
	})
	hosts := []string{"-hosts", guest.HostAddress(1) + ":1," + other + ":1", "-ssh", "/bin/rsh", "-lease", "10s"}
	var fabrics [][]string
	for _, f := range [][]string{ranktest.TCP, ranktest.RDMA("soft", ""), ranktest.RDMA("rxe", "rxe0")} {
		fabrics = append(fabrics, append(f, hosts...))
	}
	ranktest.Run(t, ranktest.Options{Gorun: "/bin/gorun", Program: "/bin/ranks", Fabrics: fabrics, Records: "/run/records",
		Restarts: testenv.Number(t, "GORUN_HOSTS_RESTARTS", 1), Seed: 1})
}

// TestReturn goes on with the job that left a guest and went on elsewhere, over soft-RoCE again.
func TestReturn(t *testing.T) {
	if os.Getenv(wired) == "" {
		t.Skip("not one of two guests")
	}
	o := ranktest.Options{Gorun: "/bin/gorun", Fabrics: [][]string{ranktest.RDMA("rxe", "rxe0")}, Records: "/run/returned"}
	ranktest.Resume(t, o, os.Getenv(elsewhere), filepath.Join(guest.Folder, returned))
}
