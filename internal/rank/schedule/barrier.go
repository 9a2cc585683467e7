package schedule

// Barriers: messages without elements. (MPI-4.1, chapter 6.3)

// Barrier is n ranks telling each other that they are there, at doubling distances (Hensgen, Finkel and Manber). After
// ceil(log2 n) rounds each has heard of everybody.
func Barrier(s *Schedule, rank, n int) {
	for d := 1; d < n; d *= 2 {
		s.round()
		s.recv((rank-d+n)%n, Span{})
		s.send((rank+d)%n, Span{})
	}
}

// BarrierLinear is everybody telling everybody, at once.
func BarrierLinear(s *Schedule, rank, n int) {
	gather(s, rank, n, In, Whole(0))
	scatter(s, rank, n, In, Whole(0))
}

// BarrierCentral makes all ranks tell rank 0, which then tells all. Where ranks share CPUs, none has to run more than twice.
func BarrierCentral(s *Schedule, rank, n int) {
	if rank != 0 {
		s.recv(0, Span{})
		s.send(0, Span{})
		return
	}
	gather(s, rank, n, In, Whole(0))
	s.round()
	scatter(s, rank, n, In, Whole(0))
}

// BarrierTree is BarrierCentral up and down a binomial tree.
func BarrierTree(s *Schedule, rank, n int) {
	bit := 1
	for ; bit < n && rank&bit == 0; bit *= 2 {
		if rank+bit < n {
			s.recv(rank+bit, Span{})
		}
	}
	s.round()
	if rank != 0 {
		s.recv(rank-bit, Span{})
		s.send(rank-bit, Span{})
		s.round()
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if rank+bit < n {
			s.send(rank+bit, Span{})
		}
	}
}
