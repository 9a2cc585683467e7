// Package memcopy copies bytes in memory that processes share.
package memcopy
