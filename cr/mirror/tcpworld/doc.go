// Package tcpworld is a world of its own for package mirror, over plain TCP: for programs without mpi, and for those that are to
// survive the loss of ranks in the same processes.
//
//	coordinator                        members: ranks and spares
//	   |<---- hello: node, address -------|   |   |
//	   |  as many as there are ranks      |   |   |
//	   |----- life 1: who has which rank >|   |   |
//	   |<---- pings, both ways ---------->|   |   |        blocks and messages go from member to member
//	   |      a connection ends, or is silent: that member is lost
//	   |----- lost ---------------------->|   |            contexts of life 1 end
//	   |----- life 2: a spare in its place ------>|        connections of life 1 are closed, and nothing of it is taken
//	   |<---- leave: how the function ended --|   |
//	   |----- over ---------------------->|   |   |        when all have left
//
// The coordinator decides alone, so there are never two opinions about who is lost. A member that it has given up learns so when its
// connection is closed; what it still sends belongs to an old life and is refused. The coordinator is one process that does not
// compute. If it is lost the world ends, and a Target on disk is what is left.
//
// Both ends of a connection prove that they know the secret (HMAC-SHA256 over both's random numbers). What follows is not encrypted.
package tcpworld
