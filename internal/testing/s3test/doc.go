// Package s3test is an object store for tests, in the process of the test. It speaks as much of the S3 protocol as
// gorun uses, and is stricter than a server need be: it checks the signature of each request (AWS Signature Version
// 4), the SHA-256 and the CRC32C of what has arrived, the order and sizes of parts, and every condition. It lists in
// short pages. Between it and the client a test may put a Fault.
//
// What it does was compared with servers in use: the same tests run against versitygw where that is installed.
package s3test
