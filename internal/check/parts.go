package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nested lists the modules below the root that are checked as well.
var nested = []string{"benchmarks/plot", "cr/criu"}

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
	if err := r.sh(nil, "go", "vet", "-tags", "gorun_nocr", "./..."); err != nil {
		return err
	}
	if err := r.sh(nil, "go", "mod", "tidy", "-diff"); err != nil {
		return err
	}
	for _, dir := range nested {
		if err := r.sh(nil, "go", "-C", dir, "vet", "./..."); err != nil {
			return err
		}
	}
	return nil
}

// others are tests that parts of their own run: whole and kills.
const others = "^TestNative|^TestKill$"

func unit(r *runner) error {
	if err := r.sh(nil, "go", "test", "-skip="+others, "./..."); err != nil {
		return err
	}
	for _, dir := range nested {
		if err := r.sh(nil, "go", "-C", dir, "test", "./..."); err != nil {
			return err
		}
	}
	return nil
}

func race(r *runner) error {
	if ok, err := r.need("gcc", "the race detector links C"); !ok {
		return err
	}
	return r.sh([]string{"CGO_ENABLED=1"}, "go", "test", "-race", "-short",
		"./rpi/...", "./mpi/...", "./internal/job/...", "./internal/jobtest/...", "./internal/oob/...",
		// not cr/native: it works on other processes, for minutes under the detector
		"./cr", "./cr/image", "./cr/self", "./cr/snapshot", "./launcher/...")
}

func sim(r *runner) error {
	return r.sh(nil, "go", "test", "./internal/sim", "-count=1", "-timeout=1h", "-v", "-run=Schedules|Mutant", "-args", "-sim.schedules="+r.times(5000, 50000, 100000))
}

func kills(r *runner) error {
	return r.sh([]string{"GORUN_KILLS=" + r.times(20, 100, 200)}, "go", "test", "./internal/e2e", "-count=1", "-timeout=1h", "-v", "-run=^TestKill$")
}

// whole runs as an ordinary user what root runs for everybody.
func whole(r *runner) error {
	return r.sh([]string{"GORUN_CYCLES=" + r.times(5, 40, 100), "GORUN_CYCLES64=" + r.times(1, 3, 5)},
		"go", "test", "./internal/e2e", "-count=1", "-timeout=1h", "-v", "-run=^TestNative")
}

func ports(r *runner) error {
	for _, arch := range []string{"aarch64", "s390x"} {
		if ok, err := r.need("qemu-"+arch+"-static", "it runs programs of the other architecture (Debian: qemu-user-static)"); !ok {
			return err
		}
	}
	return r.sh([]string{"GORUN_PORTS=1"}, "go", "test", "./internal/e2e", "-count=1", "-v", "-run=Architectures|ByteOrders")
}

// fuzz runs every fuzz target it finds, each for a number of inputs.
func fuzz(r *runner) error {
	count := r.times(2000, 5000, 50000) + "x" // not a time: go test reports a deadline that ends a worker as a failure
	found := 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(src)) {
			rest, ok := strings.CutPrefix(line, "func Fuzz")
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(rest, "(")
			found++
			if err := r.sh(nil, "go", "test", "./"+filepath.Dir(path), "-run=^$", "-fuzz=^Fuzz"+name+"$", "-fuzztime="+count, "-fuzzminimizetime=20x"); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("no fuzz targets found")
	}
	return err
}

func older(r *runner) error {
	env := []string{"GOTOOLCHAIN=go1.25.4", "GOFLAGS=-buildvcs=false"}
	if err := r.sh(env, "go", "version"); err != nil {
		if r.ci {
			return err
		}
		fmt.Println("skipped: Go 1.25.4 cannot be had here")
		return nil
	}
	if err := r.sh(env, "go", "build", "./..."); err != nil {
		return err
	}
	// Part whole images programs of that version; gorun itself may be of either.
	if err := r.sh(env, "go", "test", "-short", "./rpi/...", "./mpi/...", "./cr", "./cr/self", "./internal/job/...", "./internal/jobtest", "./launcher/..."); err != nil {
		return err
	}
	return r.sh(env, "go", "test", "-short", "./internal/e2e", "-run=^(TestKill|TestCheckpointRestartByHand)$")
}

func bench(r *runner) error {
	return r.sh([]string{"GORUN_BENCH=1"}, "go", "test", "./benchmarks", "-count=1", "-v", "-run=Benchmarks")
}
