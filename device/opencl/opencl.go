// Package opencl is the client of devices that a vendor's library drives. The library is never in the program: for each
// opened device there is a process, gorun-device, that loads it. Program and process share a file of memory, with a ring of
// commands and room for data in transit (see internal/offload); arrays stay in the program's own memory. So the program stays
// static Go, and what kills the process kills no rank: its events return provider.ErrLost. Programs use package device.
//
// The command gorun-device is a module of its own. It is looked for at GORUN_DEVICE_SERVER, beside the program, and in PATH. Where it is not
// found there are no such devices.
//
// The process is a child of the program. Images of whole processes therefore refuse a program with such a device open; portable images hold
// its arrays.
package opencl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// Provider has the devices that gorun-device lists.
type Provider struct{}

// Name of the provider.
func (Provider) Name() string { return "opencl" }

// server returns the path of gorun-device, "" if there is none.
func server() (string, error) {
	if path := os.Getenv("GORUN_DEVICE_SERVER"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("GORUN_DEVICE_SERVER: %w", err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "gorun-device")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("gorun-device")
	if err != nil {
		return "", nil
	}
	return path, nil
}

// lists keeps what each gorun-device has listed: loading all libraries of a machine takes time.
var lists struct {
	sync.Mutex
	of map[string][]provider.Info
}

// List asks gorun-device. Errors: what it has said.
func (Provider) List() ([]provider.Info, error) {
	path, err := server()
	if path == "" {
		return nil, err
	}
	lists.Lock()
	defer lists.Unlock()
	if infos, ok := lists.of[path]; ok {
		return infos, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "list").Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s list: a library of this machine has not told its devices within %v", path, patience)
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("%s list: %w", path, err)
	}
	infos, err := parseList(out)
	if err != nil {
		return nil, fmt.Errorf("%s list: %w", path, err)
	}
	if lists.of == nil {
		lists.of = map[string][]provider.Info{}
	}
	lists.of[path] = infos
	return infos, nil
}

func parseList(out []byte) ([]provider.Info, error) {
	var told []offload.Info
	if err := json.Unmarshal(out, &told); err != nil {
		return nil, fmt.Errorf("no list of devices: %w", err)
	}
	infos := make([]provider.Info, len(told))
	for i, t := range told {
		infos[i] = info(i, t)
	}
	return infos, nil
}

func info(index int, t offload.Info) provider.Info {
	return provider.Info{
		ID: id(index), Kind: provider.Kind(t.Kind), Name: t.Name, Platform: t.Platform, Version: t.Version,
		Memory: t.Memory, Units: t.Units, Clock: t.Clock, MaxGroup: t.MaxGroup, Double: t.Double,
	}
}

func id(index int) string { return fmt.Sprintf("opencl:%d", index) }

// Open starts an offload process for a device. Errors: what it says, with its output on standard error.
func (Provider) Open(index int) (provider.Device, error) {
	d, err := start(index)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", id(index), err)
	}
	return d, nil
}
