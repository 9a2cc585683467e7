package restore

import "encoding/binary"

// le is the order of bytes in the kernel's tables and the processor's registers.
var le = binary.LittleEndian
