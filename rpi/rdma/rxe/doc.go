// Package rxe is a provider of RDMA queue pairs by Linux's soft-RoCE driver (rdma_rxe), which speaks RoCE version 2 over any network: as
// adapters do, and with them. It is pure Go, so programs stay static.
//
//	modprobe rdma_rxe
//	rdma link add rxe0 type rxe netdev eth0
//
// # The kernel's interface
//
// Objects are made by commands that are written to /dev/infiniband/uverbsN (include/uapi/rdma/ib_user_verbs.h). Requests and
// completions are exchanged in rings that are mapped (include/uapi/rdma/rdma_user_rxe.h):
//
//	send queue, receive queue   this process is the producer, the driver the consumer
//	completion queue            the other way round
//
// A doorbell is a command to post nothing. Receives need none. What the driver says in its rings is not trusted with this process's memory: it only
// counts, and names requests.
//
// # Limits
//
// The driver moves bytes by threads of the kernel, whether the process polls or not. It pins
// registered memory: ulimit -l bounds that for all but root.
package rxe
