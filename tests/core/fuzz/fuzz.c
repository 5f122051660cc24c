// The entry of libFuzzer: -DTARGET=fuzz_json and so on.
#include "fuzz.h"

bool allocation_failed = false, error_seen = false;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool started = false;
    if (!started) mt_start();
    started = true;
    return TARGET(data, size);
}
