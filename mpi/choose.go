package mpi

// Which algorithm a collective uses, by number of ranks n and bytes. All ranks
// must choose alike, so only what they agree on counts: never a local length.
//
//	              small                            large
//	Bcast         binomial tree                    scatter + ring allgather       from 64 KB, 4 ranks
//	Reduce        binomial tree                    ring reduce-scatter + gather   from 64 KB, 4 ranks, commutative
//	Allreduce     recursive doubling               ring reduce-scatter+allgather  from 32 KB, commutative
//	ReduceScatter recursive doubling, own block    ring reduce-scatter            from 8 KB, commutative
//	Gather        binomial tree                    all to the root                from 8 KB a block
//	Scatter       binomial tree                    all from the root              from 8 KB a block
//	Allgather     Bruck, ceil(log2 n) rounds       ring, n-1 rounds               from 16 KB in all, or 2 ranks
//	Alltoall      Bruck                            pairwise                       from 256 B a block, or to 4 ranks
//	Scan, Exscan  doubling distances
//	Barrier       dissemination
//	v forms       linear from or to the root, ring (Allgatherv), pairwise (Alltoallv)
//
// Operators that are not commutative always take an algorithm that combines
// neighbouring ranges of ranks in order; the order is fixed for a given number
// of ranks, so that results are too, bit for bit.

func useScatterAllgather(n, bytes int) bool { return n >= 4 && bytes >= 64<<10 }

func useRingReduce(n, bytes int, commutative bool) bool {
	return commutative && n >= 4 && bytes >= 64<<10
}

func useRingAllreduce(n, bytes int, commutative bool) bool {
	return commutative && n >= 2 && bytes >= 32<<10
}

func useRingReduceScatter(bytes int, commutative bool) bool { return commutative && bytes >= 8<<10 }

func useTree(n, block int) bool { return n > 2 && block < 8<<10 }

func useBruckAllgather(n, total int) bool { return n > 2 && total < 16<<10 }

func useBruckAlltoall(n, block int) bool { return n > 4 && block < 256 }
