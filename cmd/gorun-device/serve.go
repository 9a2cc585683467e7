package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

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
	ring, err := attach(sharedFD)
	if err != nil {
		p, packetErr := offload.Packet(offload.Answer{Op: offload.Hello, Version: offload.Version, Error: err.Error()})
		_, writeErr := conn.Write(p)
		return errors.Join(err, packetErr, writeErr)
	}
	return server.Serve(conn, ring, func() (driver.Queue, offload.Info, error) { return open(*id) }, opt)
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
