package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/server"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// What whoever starts an offload process gives it.
const (
	socketFD = 3
	sharedFD = 4
)

// serve is an offload process.
func serve(args []string) error {
	flags, id := flagsOf("serve")
	var opt server.Options
	flags.StringVar(&opt.Restore, "restore", "", "capture that the device begins with")
	flags.BoolVar(&opt.Share, "share", false, "ask for memory")
	flags.Int64Var(&opt.Room, "room", 0, "bytes that it need not ask for")
	if err := parse(flags, args); err != nil {
		return err
	}
	conn, err := net.FileConn(os.NewFile(socketFD, "socket"))
	if err != nil {
		return fmt.Errorf("descriptor %d is not a rank's socket (%w): programs start this command, not people", socketFD, err)
	}
	if err := say(conn, offload.Answer{Op: offload.Begun}); err != nil {
		return err
	}
	ring, err := attach(sharedFD)
	if err != nil {
		return errors.Join(err, say(conn, offload.Answer{Op: offload.Hello, Version: offload.Version, Error: err.Error()}))
	}
	return server.Serve(conn, ring, func() (driver.Queue, offload.Info, error) {
		limit, err := offload.OpenLimit(os.Getenv(offload.EnvOpen))
		if err != nil {
			return nil, offload.Info{}, err
		}
		defer within(limit, *id, conn)()
		return open(*id)
	}, opt)
}

// say sends a packet.
func say(conn net.Conn, a offload.Answer) error {
	p, err := offload.Packet(a)
	if err == nil {
		_, err = conn.Write(p)
	}
	return err
}

// within ends this process, with an answer that says why, if a device is not open in time: a library that hangs answers nobody. The function returned says that it is.
func within(limit time.Duration, id string, conn net.Conn) (open func()) {
	if limit == 0 {
		return func() {}
	}
	t := time.AfterFunc(limit, func() {
		text := fmt.Sprintf("device %s: its library has not opened it within %v: its driver hangs, or needs longer (%s=10m); gorun-device smoke -device %s tries it alone", id, limit, offload.EnvOpen, id)
		_ = say(conn, offload.Answer{Op: offload.Hello, Version: offload.Version, Error: text}) // it ends in any case
		fmt.Fprintln(os.Stderr, "gorun-device:", text)
		os.Exit(1)
	})
	return func() {
		if !t.Stop() {
			select {} // it is ending
		}
	}
}

// attach maps the shared file.
func attach(fd int) (*offload.Shared, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("descriptor %d is not the shared file: %w", fd, err)
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not the shared file: %w", fd, err)
	}
	return offload.Attach(mem)
}

// open opens a device by its ID. Only its library is loaded: others may take long.
func open(id string) (driver.Queue, offload.Info, error) {
	name, _, _ := strings.Cut(id, ":")
	devices, err := find(name)
	for _, d := range devices {
		if d.info.ID() == id {
			q, err := d.Open()
			return q, d.info, err
		}
	}
	if err == nil || len(devices) > 0 {
		err = fmt.Errorf("no device %s: this machine has %d of %s; gorun-device list tells them", id, len(devices), name)
	}
	return nil, offload.Info{}, err
}
