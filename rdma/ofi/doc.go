// Package ofi is a provider of RDMA queue pairs over libfabric (OpenFabrics Interfaces, OFI), which is loaded when a device is listed or opened. A
// program that imports the package has it:
//
//	import _ "github.com/gorun-mpi/gorun/rdma/ofi"
//
// It is a module of its own, without cgo. A program with it is linked dynamically, and needs glibc and libfabric.so.1, version 1.17 or later (Debian: libfabric1).
//
// # Devices
//
// A device is one of libfabric's providers with reliable datagrams (FI_EP_RDM), FI_MSG and FI_RMA. Its name is the provider's, and after a slash
// the address of this machine that it is to use, if not the provider's own choice:
//
//	shm              within a machine
//	tcp;ofi_rxm      over TCP
//	net              over TCP, newer
//	udp;ofi_rxd      over UDP
//	net/127.0.0.1    at that address
//
// The test-suite runs with these four. Providers of adapters (verbs;ofi_rxm, efa, cxi, psm3) are opened by name if they are there, and are untested: there was no such adapter.
//
// # Queue pairs on datagrams
//
// Only one of libfabric's software providers has connected endpoints, and none says at the sender why a request failed at the receiver: a wrong key closes the
// connection, with all that is on it. Nor do their completions say that a receive has taken the message, which a checkpoint counts on. So all pairs of a device share one
// endpoint, and speak a protocol of packets on its messages. Libfabric brings each packet once. Between two devices mostly in order; packets have numbers.
//
//	data   ->   opcode, number, address and key; bytes, or where they are to be read
//	       <-   (libfabric reads)
//	       <-   ack: number of requests that are over, in any packet. One of its own is sent by the next poll, if no other was
//	       <-   refuse: number and status. The pair is Failed
//	read   ->   address and key
//	       <-   reply: bytes, or where they are to be read
//	       (libfabric reads)
//	done   ->   they were read
//	gone  <->   there is no such pair, or it is Failed
//
// Requests of up to a packet carry their bytes. Longer ones are read by the peer with one fi_read a piece, after it has checked the key. So each byte is copied once by libfabric,
// and all checks are made by the side that owns the memory. All four providers need the target's poll for one-sided requests in any case.
//
// A message without a receive is kept by its target, and is not over before a receive has taken it. A packet names its pair by
// number and a random cookie that only the peer was told. Libfabric's keys of regions go to peers whose requests were allowed, or that have to read. Nothing is encrypted.
//
// # Peers that are gone
//
// Libfabric's providers tell of a dead peer late or never. Each device has a socket besides, for
// UDP or, with shm, in the abstract Unix namespace. A device that has waited for a second sends an
// empty datagram there. If the kernel reports that no process is there, the pair is Failed with
// RetryExceeded. A machine that is gone is noticed only if the network or libfabric says so.
// udp;ofi_rxd itself gives up a peer that has not polled for some minutes.
//
// # Processes
//
// Open ignores SIGPIPE: libfabric writes to sockets that may be dead. After a restore, Abandon leaves what libfabric has in memory as it is: nothing of it is called again.
// It is lost, some MB each time. A device that was closed before the image leaves nothing.
package ofi
