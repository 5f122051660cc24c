#include "pair_index.h"

INLINE bool is_before(heap_item a, heap_item b) {
    return a.count > b.count || (a.count == b.count && a.key < b.key);
}

void heap_push(heap_item *heap, int64_t size, heap_item item) {
    int64_t place = size;
    for (int64_t parent; place > 0 && is_before(item, heap[parent = (place - 1) >> 1]);
         place = parent)
        heap[place] = heap[parent];
    heap[place] = item;
}

void heap_sink(heap_item *heap, int64_t size, int64_t place) {
    heap_item moved = heap[place];
    for (int64_t child; (child = 2 * place + 1) < size; place = child) {
        if (child + 1 < size && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], moved)) break;
        heap[place] = heap[child];
    }
    heap[place] = moved;
}

int64_t heap_drop(heap_item *heap, int64_t size) {
    heap[0] = heap[--size];
    if (size > 0) heap_sink(heap, size, 0);
    return size;
}

void heap_make(heap_item *heap, int64_t size) {
    for (int64_t place = size / 2 - 1; place >= 0; place--) heap_sink(heap, size, place);
}
