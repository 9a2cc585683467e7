// Package opencl is the client of devices that a vendor's library drives, OpenCL or CUDA. The library is never in the program: for each
// opened device there is a process, gorun-device, that loads it. Program and process share a file of memory, with a ring of
// commands and room for data in transit (see internal/offload); arrays stay in the program's own memory. So the program stays
// static Go, and what kills the process kills no rank: its events return provider.ErrLost. Programs use package device.
//
// The command gorun-device is a module of its own. It is looked for at GORUN_DEVICE_SERVER, beside
// the program, and in PATH. If it is not found there are no such devices.
//
// Under gorun the agent of the rank starts the process and has its socket (see offload.Host): a rank has nothing of it but the memory that they share, so whole-process images
// hold it. Without gorun, or before mpi.Init, the process is a child of the program.
package opencl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// Provider has the devices that gorun-device lists for a library.
type Provider struct {
	Library string // "cuda"; "opencl" if empty
}

// Name of the provider.
func (p Provider) Name() string {
	if p.Library == "" {
		return openCL
	}
	return p.Library
}

// Language is the library's own.
func (p Provider) Language() string { return p.Name() }

const openCL = "opencl"

// server returns the path of gorun-device, "" if there is none.
func server() (string, error) {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	path, err := offload.Server(os.Getenv(offload.EnvServer), os.Getenv("PATH"), self)
	if errors.Is(err, offload.ErrNoServer) {
		return "", nil
	}
	return path, err
}

// lists keeps what each gorun-device has listed: loading all libraries of a machine takes time.
var lists struct {
	sync.Mutex
	of map[string]list
}

type list struct {
	infos     []provider.Info
	complaint error // of a library that is here and does not work
}

// List asks gorun-device. Errors: what it has said; OpenCL's provider returns it, for all libraries.
func (p Provider) List() ([]provider.Info, error) {
	l, err := all()
	if err == nil {
		err = l.complaint
	}
	if p.Name() != openCL {
		err = nil
	}
	var mine []provider.Info
	for _, info := range l.infos {
		if strings.HasPrefix(info.ID, p.Name()+":") {
			mine = append(mine, info)
		}
	}
	return mine, err
}

// all returns the list of all libraries' devices.
func all() (list, error) {
	path, err := server()
	if path == "" {
		return list{}, err
	}
	lists.Lock()
	defer lists.Unlock()
	if l, ok := lists.of[path]; ok {
		return l, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "list")
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return list{}, fmt.Errorf("%s list: a library of this machine has not told its devices within %v", path, patience)
	}
	if err != nil {
		if words.Len() > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(words.String()))
		}
		return list{}, fmt.Errorf("%s list: %w", path, err)
	}
	l := list{complaint: complaint(words.String())}
	if l.infos, err = parseList(out); err != nil {
		return list{}, fmt.Errorf("%s list: %w", path, err)
	}
	if lists.of == nil {
		lists.of = map[string]list{}
	}
	lists.of[path] = l
	return l, nil
}

// complaint is what gorun-device itself says on standard error; libraries say much there.
func complaint(words string) error {
	var lines []string
	for line := range strings.Lines(words) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), offload.Complaint); ok {
			lines = append(lines, text)
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "; "))
}

func parseList(out []byte) ([]provider.Info, error) {
	var told []offload.Info
	if err := json.Unmarshal(out, &told); err != nil {
		return nil, fmt.Errorf("no list of devices: %w", err)
	}
	infos := make([]provider.Info, len(told))
	for i, t := range told {
		if err := offload.CheckDevice(t.ID()); err != nil {
			return nil, fmt.Errorf("no list of devices of this version: %w", err)
		}
		infos[i] = info(t)
	}
	return infos, nil
}

// info describes a device.
func info(t offload.Info) provider.Info {
	return provider.Info{
		ID: t.ID(), Kind: provider.Kind(t.Kind), Name: t.Name, Platform: t.Platform, Version: t.Version,
		Memory: t.Memory, Units: t.Units, Clock: t.Clock, MaxGroup: t.MaxGroup, Double: t.Double,
	}
}

// Open starts an offload process for a device. Errors: what it says, with its output on standard error.
func (p Provider) Open(index int) (provider.Device, error) {
	id := fmt.Sprintf("%s:%d", p.Name(), index)
	d, err := start(id)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", id, err)
	}
	return d, nil
}
