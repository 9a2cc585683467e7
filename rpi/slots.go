package rpi

// Publish sends one eager message to several ranks at the price of one, where
// a module that carries them all can share memory with them (SlotPublisher). It
// reports false, having done nothing, where that cannot be: the caller then
// sends to each. Matching, order and bookmarks are as if it had been sent to
// each. p is the caller's again on return.
func (e *Engine) Publish(readers []int, ctx uint64, tag int32, t *Type, p []byte) (bool, error) {
	e.enter()
	defer e.leave()
	var mod Module
	for _, dst := range readers {
		if err := e.checkSend(dst, ctx, tag); err != nil {
			return false, err
		}
		if dst == ProcNull || dst == e.rank {
			return false, nil
		}
		pr := &e.peers[dst]
		if mod != nil && pr.mod != mod || pr.stuck() || len(p) > pr.eager {
			return false, nil
		}
		mod = pr.mod
	}
	slots, ok := mod.(SlotPublisher)
	if !ok {
		return false, nil
	}
	e.fill(Eager, ctx, tag, t, len(p))
	if slots.PublishSlot(readers, &e.out, p) != Taken {
		return false, nil
	}
	if Checkpointing {
		for _, dst := range readers {
			e.sent[dst] += e.out.Counted()
		}
	}
	return true, nil
}
