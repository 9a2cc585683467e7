// Package guest runs a program in a virtual machine of its own, with Debian's kernel, under QEMU's emulation: tests that need what the kernel of
// this machine lacks, such as queue pairs of the soft-RoCE driver, need no rights here.
//
//	machine                       guest
//	Run: builds an initramfs  ->  /init (package guest/init) mounts /proc, /sys, /dev, loads modules, has its network up,
//	                              and starts the program
//	reads the console         <-  all that is written; a last line with the status
//
// The guest has memory for a disk, and is gone afterwards.
package guest

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNone says that there is no emulator or no kernel here.
var ErrNone = errors.New("no virtual machine")

// emulator is QEMU's program.
const emulator = "qemu-system-x86_64"

// Kernel is one that guests may run.
type Kernel struct {
	Image   string // path
	modules string // folder
}

// Find finds the kernel in the folder that GORUN_GUEST names, where a Debian package was unpacked, or that of this machine. Errors: ErrNone.
func Find() (*Kernel, error) {
	if _, err := exec.LookPath(emulator); err != nil {
		return nil, fmt.Errorf("%w: %w (install qemu-system-x86)", ErrNone, err)
	}
	root := os.Getenv("GORUN_GUEST")
	images, _ := filepath.Glob(filepath.Join(root, "/boot/vmlinuz-*-amd64"))
	slices.Sort(images)
	for _, image := range slices.Backward(images) {
		version := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
		modules := filepath.Join(root, "/lib/modules", version)
		if _, err := os.Stat(modules); err == nil {
			return &Kernel{image, modules}, nil
		}
	}
	return nil, fmt.Errorf("%w: no kernel in %s (apt-get download linux-image-amd64's package, unpack it, and name the folder by GORUN_GUEST)", ErrNone, filepath.Join(root, "/boot"))
}

// Options say what runs in a guest.
type Options struct {
	Program string            // path here, linked statically
	Args    []string          // after the program's name
	Env     []string          // beside PATH, HOME and TMPDIR
	Files   map[string]string // paths there: paths here
	Modules []string          // of the kernel, by name; those that they need come along
	Soft    string            // soft-RoCE devices of that name, over the network
	Memory  int               // MB; 0: 512
	Folder  string            // a folder here that the guest has, too, as Folder; others may have it at the same time.
	Wire    string            // a folder here for the guests of one network, which nothing else is in; "": the guest is alone
	Host    int               // number on the wire, 1 or 2: the guest is HostAddress of it
	Out     io.Writer         // the console
}

// Plan is what /init is told, in /plan.json.
type Plan struct {
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Modules []string `json:"modules"` // paths, in the order to load them
	Soft    string   `json:"soft"`
	Address string   `json:"address"`
	Folder  bool     `json:"folder"`
}

// Folder is where a guest has what it shares, and FolderTag its name for the kernel.
const (
	Folder    = "/shared"
	FolderTag = "shared"
)

// What the network and the folder need of the kernel.
var (
	networkModules = []string{"e1000"}
	folderModules  = []string{"virtio_pci", "9pnet_virtio", "9p"}
)

// HostAddress is the IPv4 address of a guest: of one on a wire, or (0) of one that is alone.
func HostAddress(host int) string { return fmt.Sprint("10.0.2.", 10+host) }

// Over is what /init says last, before the status.
const Over = "guest: status "

var over = regexp.MustCompile(Over + `(\d+)`)

// Run starts a guest and waits for its program's end. It returns the status of that.
func Run(ctx context.Context, k *Kernel, o Options) (status int, err error) {
	dir, err := os.MkdirTemp("", "gorun-guest-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	disk := filepath.Join(dir, "initramfs")
	if err := o.write(ctx, k, disk); err != nil {
		return 0, err
	}
	memory := o.Memory
	if memory == 0 {
		memory = 512
	}
	cmd := exec.CommandContext(ctx, emulator, "-accel", "tcg,thread=multi", "-cpu", cpu(), "-smp", "2", "-m", strconv.Itoa(memory), "-no-reboot", "-nodefaults",
		"-display", "none", "-serial", "stdio", "-kernel", k.Image, "-initrd", disk,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check")
	cmd.Args = append(cmd.Args, o.network()...)
	if o.Folder != "" {
		cmd.Args = append(cmd.Args, "-virtfs", "local,path="+o.Folder+",mount_tag="+FolderTag+",security_model=none,multidevs=remap")
	}
	var last bytes.Buffer
	cmd.Stdout = io.MultiWriter(o.Out, &last)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w", emulator, err)
	}
	said := over.FindSubmatch(last.Bytes())
	if said == nil {
		return 0, errors.New("the guest has ended without a status")
	}
	return strconv.Atoi(string(said[1]))
}

// cpu is a processor for guests that has nothing for programs that this machine's lacks: an image that is made in a guest goes on here.
func cpu() string {
	model := "Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm"
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, flags, _ := strings.Cut(string(info), "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	has := strings.Fields(flags)
	for _, name := range []string{"abm", "avx", "avx2", "bmi1", "bmi2", "erms", "f16c", "fma", "fsgsbase", "movbe", "pclmulqdq", "popcnt", "rdrand", "rdtscp", "sse4_1", "sse4_2", "ssse3", "xsaveopt"} {
		if !slices.Contains(has, name) {
			model += ",-" + strings.Replace(name, "_", ".", 1)
		}
	}
	return model
}

// network gives the emulator's options for the network. A wire is two sockets: whose host is not there yet loses what is sent to it.
func (o *Options) network() []string {
	if o.Wire == "" {
		return []string{"-nic", "user,model=e1000,restrict=on"}
	}
	end := func(host int) string { return filepath.Join(o.Wire, strconv.Itoa(host)) }
	return []string{"-netdev", fmt.Sprintf("dgram,id=wire,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", end(o.Host), end(3-o.Host)),
		"-device", fmt.Sprintf("e1000,netdev=wire,mac=52:54:00:00:00:%02x", o.Host)}
}

// write writes the initramfs.
func (o *Options) write(ctx context.Context, k *Kernel, path string) error {
	initProgram := path + ".init"
	build := exec.CommandContext(ctx, "go", "build", "-o", initProgram, "github.com/gorun-mpi/gorun/internal/testing/guest/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	files := map[string]string{"/init": initProgram, "/program": o.Program}
	for there, here := range o.Files {
		files[there] = here
	}
	plan := Plan{Program: "/program", Args: o.Args, Env: o.Env, Soft: o.Soft, Address: HostAddress(o.Host), Folder: o.Folder != ""}
	names := slices.Concat(networkModules, o.Modules)
	if o.Folder != "" {
		names = append(names, folderModules...)
	}
	modules, err := k.load(names)
	if err != nil {
		return err
	}
	for _, here := range modules {
		there := "/modules/" + filepath.Base(here)
		files[there] = here
		plan.Modules = append(plan.Modules, there)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	a := archive{w: f, made: map[string]bool{}}
	a.add("/plan.json", text)
	for _, folder := range []string{"/proc", "/sys", "/dev", "/tmp", "/run"} {
		a.folder(folder)
	}
	for there, here := range files {
		content, err := os.ReadFile(here)
		if err != nil {
			return err
		}
		a.add(there, content)
	}
	a.end()
	return errors.Join(a.err, f.Close())
}

// Tests builds the tests of a package as a program for guests.
func Tests(ctx context.Context, pkg, path string) error {
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// load finds modules and those that they need, each before those that need it.
func (k *Kernel) load(names []string) (paths []string, err error) {
	all := map[string]string{}
	err = filepath.WalkDir(k.modules, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			all[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	var add func(name string) error
	add = func(name string) error {
		path := all[strings.ReplaceAll(name, "-", "_")]
		if path == "" {
			return fmt.Errorf("%w: no module %s in %s", ErrNone, name, k.modules)
		}
		if slices.Contains(paths, path) {
			return nil
		}
		needs, err := needed(path)
		for _, n := range needs {
			err = errors.Join(err, add(n))
		}
		paths = append(paths, path)
		return err
	}
	for _, name := range names {
		err = errors.Join(err, add(name))
	}
	return paths, err
}

// needed reads which modules one needs.
func needed(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%s is no module", path)
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range bytes.Split(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(line, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ","), nil
		}
	}
	return nil, nil
}
