package rxe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/internal/guest"
	"github.com/gorun-mpi/gorun/internal/testenv"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/providertest"
	"github.com/gorun-mpi/gorun/rpi/rdma/ranktest"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtualtest"
)

// inside is set in a guest.
const inside = "GORUN_INSIDE"

// Modules are those of the kernel that a guest needs.
var modules = []string{"e1000", "virtio_pci", "virtio_blk", "crc32_generic", "rdma_rxe"}

// TestGuest runs the other tests in a guest, where there is a device.
func TestGuest(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("this is one")
	}
	k, err := guest.Find()
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	dir := t.TempDir()
	self := filepath.Join(dir, "tests")
	if err := guest.Tests(t.Context(), ".", self); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"cmd/gorun", "rpi/rdma/ranktest/program"} {
		build := exec.Command("go", "build", "-o", dir+"/", "github.com/gorun-mpi/gorun/"+what)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	disk, folder := filepath.Join(dir, "disk"), t.TempDir()
	f, err := os.Create(disk)
	if err == nil {
		err = errors.Join(f.Truncate(256<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	env := []string{inside + "=1", elsewhere + "=" + folder}
	for _, name := range []string{"GORUN_RXE_CHECKPOINTS", "GORUN_RXE_RESTARTS", "GORUN_RXE_SEED"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		} else if testing.Short() && name == "GORUN_RXE_RESTARTS" {
			env = append(env, name+"=2")
		}
	}
	var out bytes.Buffer
	status, err := guest.Run(t.Context(), k, guest.Options{Program: self, Args: []string{"-test.v", "-test.run=" + os.Getenv("GORUN_GUEST_RUN")}, Env: env,
		Files: map[string]string{"/bin/gorun": dir + "/gorun", "/bin/ranks": dir + "/program"}, Modules: modules, Soft: "rxe0", Memory: 1024, Disk: disk, Out: &out})
	t.Log(out.String())
	if err != nil || status != 0 {
		t.Fatalf("status %d, %v", status, err)
	}
	if os.Getenv("GORUN_GUEST_RUN") == "" || os.Getenv("GORUN_GUEST_RUN") == "TestLeave" {
		resume(t, dir+"/gorun", disk, folder)
	}
}

// TestProvider tests what package provider promises.
func TestProvider(t *testing.T) {
	list, err := Provider{}.List()
	if errors.Is(err, errNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", list)
	providertest.Run(t, func() (provider.Device, error) { return Provider{}.Open("") })
}

// TestFlight takes checkpoints in mid-flight. Each life is over soft-RoCE or over soft, in turn and not.
func TestFlight(t *testing.T) {
	if _, err := (Provider{}).List(); errors.Is(err, errNone) {
		t.Skip(err)
	}
	const ranks = 2
	for i, n := 0, testenv.Number(t, "GORUN_RXE_CHECKPOINTS", 12); n > 0; i++ {
		count := min(n, 10)
		n -= count
		virtualtest.Run(t, virtualtest.Options{Seed: uint64(i), Ranks: ranks, Size: 20_000, Checkpoints: count, Between: 60,
			Open: func(life int) (list []provider.Device, err error) {
				for range ranks {
					var d provider.Device
					if (life*7+i)%3 == 2 {
						d, err = soft.Provider{}.Open("127.0.0.1")
					} else {
						d, err = Provider{}.Open("")
					}
					if err != nil {
						return nil, fmt.Errorf("life %d: %w", life, err)
					}
					list = append(list, d)
				}
				return list, nil
			}})
	}
}

// elsewhere is where the guest's last job has its folder, there and here.
const elsewhere = "GORUN_ELSEWHERE"

// TestLeave leaves a job of a guest for TestGuest, which goes on with it on this machine's kernel, over TCP.
func TestLeave(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("not in a guest")
	}
	const parcel = "/tmp/parcel.tar.zst"
	ranktest.Leave(t, ranktest.Options{Gorun: "/bin/gorun", Program: "/bin/ranks", Fabrics: [][]string{ranktest.RDMA("rxe", "rxe0")}}, os.Getenv(elsewhere), parcel)
	text, err := os.ReadFile(parcel)
	if err == nil {
		text = append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
		err = os.WriteFile(guest.Disk, text, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// resume goes on with the job that a guest has left on its disk.
func resume(t *testing.T, gorun, disk, folder string) {
	text, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint64(text)
	if size == 0 || size > uint64(len(text)-8) {
		t.Fatalf("the guest has left %d bytes", size)
	}
	parcel := filepath.Join(t.TempDir(), "parcel.tar.zst")
	if err := os.WriteFile(parcel, text[8:][:size], 0o600); err != nil {
		t.Fatal(err)
	}
	ranktest.Resume(t, ranktest.Options{Gorun: gorun, Fabrics: [][]string{ranktest.TCP}}, folder, parcel)
}

// TestRanks runs a job of a guest whose ranks speak over soft-RoCE, kills it, and has it go on over that, over soft and over TCP.
func TestRanks(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("not in a guest")
	}
	fabrics := [][]string{ranktest.TCP, ranktest.RDMA("soft", "127.0.0.1"), ranktest.RDMA("rxe", "rxe0")}
	ranktest.Run(t, ranktest.Options{Gorun: "/bin/gorun", Program: "/bin/ranks", Fabrics: fabrics,
		Restarts: testenv.Number(t, "GORUN_RXE_RESTARTS", 4), Seed: uint64(testenv.Number(t, "GORUN_RXE_SEED", 2))})
}
