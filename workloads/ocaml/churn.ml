(* Churn of variable-size blocks: a fixed number of live slots, each replaced again and again by a block of
   another size, so that free space breaks into pieces.  How well those pieces are used again is what an
   allocation policy decides.

   Sizes are heavy-tailed from 2 to 1023 words and their middle shifts from phase to phase, so that the holes
   one phase leaves seldom fit the next.  Deterministic: prints one checksum.

   usage: churn [SLOTS [STEPS [SEED [TAIL_PERCENT [TEXT_PERCENT]]]]]: a higher tail makes more of the blocks large;
   texts hold no pointers, so that the collector does not read them *)

type content =
  | Text of Bytes.t
  | Numbers of int array
  | Pairs of (int * int) array
  | Chain of int list

let slots = ref 60_000
let steps = ref 800_000
let seed = ref 42
let tail_percent = ref 38
let text_percent = ref 30
let phases = 6

(* xorshift: the same sequence under every OCaml *)
let state = ref 0

let next_random bound =
  let x = !state in
  let x = x lxor (x lsl 13) land 0x3fffffffffffffff in
  let x = x lxor (x lsr 7) in
  let x = x lxor (x lsl 17) land 0x3fffffffffffffff in
  state := x;
  x mod bound

(* Words of a block: mostly near the phase's middle, sometimes far above; a Pareto tail by repeated doubling. *)
let block_words phase =
  let middle = 4 + (phase * 7 mod 23) in
  let rec tail words = if words < 512 && next_random 100 < !tail_percent then tail (words * 2) else words in
  let words = tail (middle + next_random middle) in
  2 + min 1021 (words + next_random (1 + (words / 4)))

let rec chain n value = if n = 0 then [] else value :: chain (n - 1) (value + 1)

let make phase step =
  let words = block_words phase in
  if next_random 100 < !text_percent then Text (Bytes.make (words * 8) (Char.chr (step land 127)))
  else
  match next_random 7 with
  | 0 | 1 -> Numbers (Array.make words step)
  | 2 | 3 | 4 -> Pairs (Array.init (1 + (words / 12)) (fun i -> (step, i)))
  | _ -> Chain (chain (1 + (words / 12)) step)

let weight = function
  | Text text -> Bytes.length text + Char.code (Bytes.get text (Bytes.length text / 2))
  | Numbers numbers -> Array.length numbers + numbers.(Array.length numbers / 2)
  | Pairs pairs -> Array.length pairs + fst pairs.(Array.length pairs / 2)
  | Chain values -> List.fold_left ( + ) 0 values

let () =
  let argument index target =
    if Array.length Sys.argv > index then target := int_of_string Sys.argv.(index)
  in
  argument 1 slots;
  argument 2 steps;
  argument 3 seed;
  argument 4 tail_percent;
  argument 5 text_percent;
  state := (!seed * 2654435761) lor 1;
  let live = Array.init !slots (fun i -> make 0 i) in
  let index : (int, content) Hashtbl.t = Hashtbl.create 1024 in
  let checksum = ref 0 in
  for step = 1 to !steps do
    let phase = step * phases / !steps in
    let slot = next_random !slots in
    checksum := (!checksum * 31 + weight live.(slot)) land 0x3fffffffffffff;
    live.(slot) <- make phase step;
    (* a few blocks live much longer than their neighbours and keep holes from joining *)
    if step land 63 = 0 then Hashtbl.replace index (next_random (!slots / 20)) live.(slot)
  done;
  Hashtbl.iter (fun key content -> checksum := !checksum lxor (key + weight content)) index;
  Array.iter (fun content -> checksum := (!checksum * 33 + weight content) land 0x3fffffffffffff) live;
  Printf.printf "%d\n" !checksum;
  match Sys.getenv_opt "ASHLAR_REPORT_FILE" with
  | None -> ()
  | Some path ->
    let stat = Gc.quick_stat () in
    let out = open_out_gen [ Open_append; Open_creat ] 0o600 path in
    Printf.fprintf out "{\"gc_count\": %d, \"compactions\": %d, \"heap_mib\": %f}\n" stat.Gc.major_collections
      stat.Gc.compactions
      (float_of_int (stat.Gc.top_heap_words * 8) /. 1048576.);
    close_out out
