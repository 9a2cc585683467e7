// Package s3 is a store in a bucket of an object store that speaks the S3 protocol.
//
//	s3://BUCKET/PREFIX/<set>/.set      says that the set was begun
//	s3://BUCKET/PREFIX/<set>/<piece>   a piece, one object
//
// # A piece
//
// A Writer cuts what it is given into parts. Each part goes out when it is whole, with its CRC32C,
// which the server compares with what has arrived. Commit sends the rest and has the server put the
// parts together under the condition that the object is still what it was when the Writer began:
// absent, or the one with this ETag. So half an upload is never a piece, and one of two writers of
// a piece gets an error.
//
//	WriteAt ... -> buffers of one part each -> UploadPart, several at once, CRC32C each
//	Commit      -> the last parts -> CompleteMultipartUpload If-None-Match: *    (short pieces: one PutObject)
//	Abort       -> AbortMultipartUpload
//
// An answer may be lost. Then the request is sent again, and the server may refuse it because it
// was carried out. So each object carries the random tag of its Writer as metadata: a refused
// writer checks whether the object is its own.
//
// Memory is bounded: a Writer has four buffers. Ranges may come in any order; if more parts are
// begun than there are buffers, the rest wait in a temporary file without a name. Writers of images
// fill part after part and never do this. Unwritten bytes are zero. Commit may cut a piece within
// its last part.
//
// A Reader reads ahead where it is read in order, and little where it is not. It reads the object that it has opened,
// by its ETag, and no other of this name. Servers do not check sums of ranges: images and sealed pieces have sums of
// their own.
//
// # A set
//
// The object .set is made under the condition that it is absent, so one of several Begins succeeds. Remove takes it
// away last, after all pieces and all unfinished uploads, so that a Remove that was interrupted is found by Sets.
// Everything is durable when the server has said so; Commit of a set does nothing.
//
// # Failures
//
// Requests are tried again with growing pauses when the server is busy, fails or does not answer, until the context
// ends or the number of tries is spent. A connection on which nothing moves for a minute counts as broken. Errors name
// bucket, object and, where there is one, the remedy.
//
// # Credentials
//
// They come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or the usual file
// (~/.aws/credentials, AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE), and from nowhere else. They are in no Config, no
// name of a place and no error.
//
// The server must know conditional writes (If-None-Match and If-Match, also on CompleteMultipartUpload), as Amazon S3
// does since 2024.
package s3
