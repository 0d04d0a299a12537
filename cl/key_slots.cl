// Assigns a slot to each distinct key of a column, and finds the first row with that key.
//
//   key_slots   slot = hash of the key; while the slot has another key: the next slot
//               if the slot is empty: write the key with a compare-and-swap
//               first_rows[slot] = min(first_rows[slot], row);  of_rows[row] = slot
//
// This is open addressing with linear probing. Unlike koel's other tables, this one is not canonical: which of two keys
// gets a slot depends on timing, and so does whether 128 probes suffice. The first row of a key does not, so callers
// number groups by first rows. If the table fits in the L2 cache, a row costs two reads from that cache, and only new
// keys and lower first rows cost an atomic.
//
//   KOEL_KEY_BITS   32 or 64
//   KOEL_PROBES     the maximum number of probes. If a key finds no slot, `failed` is set, and the results are invalid.
//
// An empty slot contains 0. The key 0 has its own slot after all others.

#if KOEL_KEY_BITS == 64
typedef ulong key_type;
#define SEEN_KEY(at) seen64(at)
#define SWAP_KEY(at, old, new) atom_cmpxchg(at, old, new)
#else
typedef uint key_type;
#define SEEN_KEY(at) seen32(at)
#define SWAP_KEY(at, old, new) atomic_cmpxchg(at, old, new)
#endif

__kernel GROUP_SIZE void key_slots(__global const key_type *keys, const ulong len, __global key_type *table,
                                   const uint bits, __global uint *first_rows, __global uint *of_rows,
                                   __global uint *failed) {
    ulong row = get_global_id(0);
    // After a failure, rows that have not started skip the search in a full table.
    if (row >= len || seen32(failed)) return;
    key_type key = keys[row];
    uint slots = 1u << bits, slot = slots;
    if (key != 0) {
        slot = (uint)(mix_64(key, (ulong4)(0, 1, 1, 0)) >> (64 - bits));
        for (uint probes = 0;; probes++) {
            if (probes == KOEL_PROBES) {
                atomic_or(failed, 1u);
                return;
            }
            key_type there = SEEN_KEY(&table[slot]);
            if (there == 0) there = SWAP_KEY(&table[slot], (key_type)0, key);
            if (there == 0 || there == key) break;
            slot = (slot + 1) & (slots - 1);
        }
    }
    if (seen32(&first_rows[slot]) > (uint)row) atomic_min(&first_rows[slot], (uint)row);
    of_rows[row] = slot;
}
