package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nested lists the modules below the root that are checked as well.
var nested = []string{"benchmarks/plot", "cmd/gorun-device", "cmd/gorun-vet", "compat/gompi", "cr/criu", "rdma/ofi"}

func vet(r *runner) error {
	files, err := r.output("gofmt", "-l", ".")
	if err == nil && files != "" {
		err = fmt.Errorf("not formatted: %s", strings.ReplaceAll(files, "\n", " "))
	}
	if err != nil {
		return err
	}
	if err := r.sh(nil, "go", "vet", "./..."); err != nil {
		return err
	}
	if err := r.sh(nil, "go", "vet", "-tags", "gorun_nocr", "./rpi/shm", "./rpi/tcp", "./internal/rank/engine", "./benchmarks/overhead/..."); err != nil {
		return err
	}
	if err := r.sh(nil, "go", "vet", "-tags", "gorun_nolayer", "./rpi/rdma/..."); err != nil {
		return err
	}
	if err := r.sh(nil, "go", "mod", "tidy", "-diff"); err != nil {
		return err
	}
	for _, dir := range nested {
		if err := r.sh(nil, "go", "-C", dir, "vet", "./..."); err != nil {
			return err
		}
		if err := r.sh(nil, "go", "-C", dir, "mod", "tidy", "-diff"); err != nil {
			return err
		}
	}
	return nil
}

// others are tests that parts of their own run: whole, kills, losses and sim.
const others = "^TestNative|^TestKill$|^TestPrograms$|^TestLosses$|^TestMutants$|^TestSchedules$"

func unit(r *runner) error {
	env := []string{"GORUN_REVIVALS=" + r.times(32, 16, 120)}
	if r.ci || r.full { // else some of each kind
		env = append(env, "GORUN_NATIVE_SCENES=all", "GORUN_NATIVE_PROGRAMS=all")
	}
	// More packages at once than there are CPUs: tests of nodes and of batch systems wait most of their time. A failure
	// leaves the other modules to be tested: one run says all that is wrong.
	err := r.sh(env, r.test("-p="+strconv.Itoa(runtime.NumCPU()+1), "-skip="+others, "./...")...)
	if r.full { // the larger classes; the smallest one runs above
		if err := r.sh([]string{"GORUN_NPB=WA"}, "go", "test", "-vet=off", "-count=1", r.timeout(), "-run=Verify", "./examples/apps/npb/..."); err != nil {
			return err
		}
		if err := r.sh([]string{"GORUN_APPS=1"}, "go", "test", "-vet=off", "-count=1", r.timeout(), "-run=Large", "./examples/..."); err != nil {
			return err
		}
	}
	if r.full { // a few seeds run above
		if err := r.sh([]string{"GORUN_RDMA_SEEDS=10000", "GORUN_RXE_CHECKPOINTS=100", "GORUN_RXE_RESTARTS=100"},
			"go", "test", "-vet=off", "-count=1", r.timeout(), "-run=Flight|Seeds|Engines|Guest|Elsewhere", "./rpi/rdma", "./rpi/rdma/virtual", "./rpi/rdma/rxe"); err != nil {
			return err
		}
	}
	counts := []string{"GORUN_OFI_CHECKPOINTS=" + r.times(8, 8, 100), "GORUN_OFI_RESTARTS=" + r.times(6, 6, 100), "GORUN_DEVICE_KILLS=" + r.times(0, 12, 1000), "GORUN_DEVICE_SHARED=" + r.times(0, 0, 10), "GORUN_DEVICE_MATRIX=" + r.times(0, 0, 21)}
	for _, dir := range nested {
		err = errors.Join(err, r.sh(counts, slices.Insert(r.test("./..."), 1, "-C", dir)...))
	}
	return err
}

// test is a command that tests; with -full those tests, too, that take long.
func (r *runner) test(args ...string) []string {
	cmd := []string{"go", "test", "-vet=off", r.timeout()}
	if !r.full {
		cmd = append(cmd, "-short")
	}
	return append(cmd, args...)
}

// race has in memory what several goroutines of a rank, of a keeper or of an agent share. With -full it has whole jobs too,
// stores in which others fail, and queue pairs in software: these take minutes under it.
func race(r *runner) error {
	if ok, err := r.need("gcc", "the race detector links C"); !ok {
		return err
	}
	packages := []string{"./device", "./device/cpu", "./internal/rank/engine", "./internal/rank/shmcoll", "./mpi", "./mpi/mpitest", "./internal/rank/job", "./internal/protocol/oob",
		"./cr", "./cr/self", "./cr/mirror", "./internal/job/agent", "./internal/job/keeper", "./internal/job/stdio",
		"./rpi", "./rpi/mem", "./rpi/shm", "./rpi/tcp", "./rpi/rdma/virtual"}
	if r.full {
		// Not cr/native: it works on other processes, for minutes under the detector; nor device/opencl, whose processes start slowly under it.
		packages = []string{"./device", "./device/cpu", "./internal/rank/engine/...", "./internal/rank/shmcoll/...", "./mpi/...", "./dist", "./internal/rank/job/...", "./internal/testing/jobtest/...", "./internal/protocol/oob/...",
			"./cr", "./cr/image", "./cr/self", "./cr/snapshot", "./cr/store/...", "./cr/mirror", "./cr/mirror/mpiworld", "./cr/mirror/tcpworld", "./internal/protocol/joblife", "./internal/job/...", "./rpi/..."}
	}
	args := []string{"go", "test", "-vet=off", "-race", "-short", r.timeout()}
	if !r.full {
		args = append(args, "-skip="+noRaces)
	}
	return r.sh([]string{"CGO_ENABLED=1"}, append(args, packages...)...)
}

// noRaces are tests in which the detector has nothing to find: a single goroutine moves all ranks, or does arithmetic; or what other tests
// do, too, is done thousands of times, for what grows meanwhile.
const noRaces = "^(TestCombineParts|TestCutsAnywhere|TestHalfSentResumes|TestOddOrders|TestRestartElsewhere|TestSizes|" +
	"TestCommunicatorsLeaveNothing|TestManyCommunicators|TestNothingGrows)$"

func sim(r *runner) error {
	return r.sh(nil, "go", "test", "-vet=off", "./internal/testing/sim/...", "-count=1", r.timeout(), "-v", "-run=Schedules|Mutant", "-args", "-sim.schedules="+r.times(3000, 3000, 100000))
}

func kills(r *runner) error {
	return r.sh([]string{"GORUN_KILLS=" + r.times(20, 40, 200), "GORUN_PROGRAMS=" + r.times(0, 0, 5), r.until(11 * time.Minute)},
		"go", "test", "-vet=off", "./internal/e2e", "-count=1", r.timeout(), "-v", "-run=^TestKill$|^TestPrograms$")
}

func losses(r *runner) error {
	return r.sh([]string{"GORUN_LOSSES=" + r.times(24, 24, 2000), "GORUN_LOSSES_MEMORY=" + r.times(0, 1, 1), r.until(16 * time.Minute)}, "go", "test", "-vet=off", "./internal/e2e/nodes", "-count=1", r.timeout(), "-v", "-run=^TestLosses$")
}

// whole runs as an ordinary user what root runs for everybody.
func whole(r *runner) error {
	return r.sh([]string{"GORUN_CYCLES=" + r.times(5, 5, 100), "GORUN_CYCLES64=" + r.times(1, 1, 5), r.until(15 * time.Minute)},
		"go", "test", "-vet=off", "./internal/e2e", "-count=1", r.timeout(), "-v", "-run=^TestNative")
}

func ports(r *runner) error {
	for _, arch := range []string{"aarch64", "s390x"} {
		if ok, err := r.need("qemu-"+arch+"-static", "it runs programs of the other architecture (Debian: qemu-user-static)"); !ok {
			return err
		}
	}
	return r.sh([]string{"GORUN_PORTS=1"}, "go", "test", "-vet=off", "./internal/e2e", "-count=1", "-v", "-run=Architectures|ByteOrders")
}

// fuzz runs every fuzz target it finds, each for a number of inputs. All are built at once, and only
// what is ours is instrumented to see what an input reaches: go test -fuzz compiles all of the standard
// library for that.
func fuzz(r *runner) error {
	tmp, err := os.MkdirTemp("", "gorun-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r.onSignal(func(os.Signal) { os.RemoveAll(tmp) })
	targets, err := fuzzTargets()
	if err == nil && len(targets) == 0 {
		err = fmt.Errorf("no fuzz targets found")
	}
	if err != nil {
		return err
	}
	dirs := slices.Sorted(maps.Keys(targets))
	for _, module := range append([]string{"."}, nested...) {
		build := []string{"go", "-C", module, "test", "-c", "-vet=off", "-gcflags=./...=-d=libfuzzer -dwarf=false", "-ldflags=-s -w", "-o", tmp + "/"}
		n := len(build)
		for _, dir := range dirs {
			if rest, err := filepath.Rel(module, dir); err == nil && moduleOf(dir) == module {
				build = append(build, "./"+rest)
			}
		}
		if len(build) == n {
			continue
		}
		if err := r.sh(nil, build...); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		for _, name := range targets[dir] {
			fmt.Fprintln(r.out, dir, name)
			// Not for a time: a deadline that ends a worker is reported as a failure.
			if err := r.in(dir, r.out, nil, filepath.Join(tmp, filepath.Base(dir)+".test"), "-test.run=^$", "-test.fuzz=^"+name+"$", "-test.fuzztime="+r.times(2000, 1000, 50000)+"x",
				"-test.fuzzminimizetime=20x", "-test.fuzzcachedir="+filepath.Join(tmp, "cache", dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moduleOf returns the module that a folder is of.
func moduleOf(dir string) string {
	for _, module := range nested {
		if dir == module || strings.HasPrefix(dir, module+"/") {
			return module
		}
	}
	return "."
}

// fuzzTargets returns the names of all targets by folder.
func fuzzTargets() (map[string][]string, error) {
	found := map[string][]string{}
	return found, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(src)) {
			if rest, ok := strings.CutPrefix(line, "func Fuzz"); ok {
				name, _, _ := strings.Cut(rest, "(")
				found[filepath.Dir(path)] = append(found[filepath.Dir(path)], "Fuzz"+name)
			}
		}
		return nil
	})
}

func older(r *runner) error {
	env := []string{"GOTOOLCHAIN=go1.25.4", "GOFLAGS=-buildvcs=false"}
	if err := r.sh(env, "go", "version"); err != nil {
		if r.ci {
			return err
		}
		fmt.Fprintln(r.out, "skipped: Go 1.25.4 cannot be had here")
		return nil
	}
	all := []string{"go", "list", "-export", "-f={{with .Error}}{{.}}{{end}}", "./..."} // compiles and links nothing
	if r.full {
		all = []string{"go", "vet", "./..."}
	}
	if err := r.sh(env, all...); err != nil {
		return err
	}
	// Part whole images programs of that version; gorun itself may be of either.
	if r.full {
		return r.sh(env, "go", "test", "-vet=off", "-short", "-skip="+others, "./...")
	}
	if err := r.sh(env, "go", "test", "-vet=off", "-short", "./rpi/mem", "./rpi/tcp", "./mpi/mpitest", "./cr", "./cr/self", "./internal/rank/job/..."); err != nil {
		return err
	}
	return r.sh(env, "go", "test", "-vet=off", "-short", "./internal/e2e", "-run=^TestCheckpointRestartByHand$")
}

func bench(r *runner) error {
	return r.sh([]string{"GORUN_BENCH=1", "GORUN_BENCH_LEVELS=" + r.times(0, 0, 1)}, "go", "test", "-vet=off", "./benchmarks", "-count=1", r.timeout(), "-v", "-run=Benchmarks")
}
