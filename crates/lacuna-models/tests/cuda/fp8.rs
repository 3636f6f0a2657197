//! 8-bit floating point.

use super::*;

with! { gpu_with_fp8:
    fn reading_in_pieces_is_reading_at_once_in_fp8() {
        promises::reading_in_pieces_is_reading_at_once(on_gpu, &FP8);
    }

    fn a_batch_is_each_view_alone_in_fp8() {
        promises::a_batch_is_each_view_alone(on_gpu, &FP8);
    }

    fn where_nothing_has_changed_a_cache_changes_no_bit_in_fp8() {
        promises::where_nothing_has_changed_a_cache_changes_no_bit(on_gpu, &FP8);
    }

    fn a_batch_of_a_family_is_each_view_alone_in_fp8() {
        // The experts of the others are of odd sizes.
        families::a_batch_of_a_family_is_each_view_alone(on_gpu, &FP8, |name| name == "llada2");
    }

    fn experts_in_fp8_are_near() {
        families::experts_of_few_bits_are_near(on_gpu, Precision::Fp8);
    }

    fn a_batch_of_large_products_is_each_view_alone_in_fp8() {
        a_batch_of_large_products_is_each_view_alone(Precision::Fp8);
    }

    fn two_loads_and_two_runs_give_the_same_bits_in_fp8() {
        two_loads_and_two_runs_give_the_same_bits(Precision::Fp8);
    }

    fn fp8_stays_close_to_bf16() {
        let embedded = Checkpoint::embedded().unwrap();
        let prompt = "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?";
        let mut tokens = embedded.text().unwrap().chat(&[("user", prompt)]).unwrap();
        tokens.resize(tokens.len() + 128, embedded.mask_token().unwrap());
        let random = Checkpoint::random(Shape::Small).unwrap();
        let biased = tiny("dream-tiny");
        let cases = [(embedded, tokens, 0.03), (random, long(333), 0.2), (biased, long(150), 0.2)];
        for (checkpoint, tokens, tolerance) in cases {
            let [exact, found] = [Precision::Bf16, Precision::Fp8].map(|precision| {
                let mut model = on_gpu(&checkpoint, precision);
                model.observe(&[view(&tokens)]).unwrap();
                model.logits(0).unwrap().concat()
            });
            let error = relative(&found, &exact);
            let name = checkpoint.name();
            assert!(error > 1e-4 && error < tolerance, "{name}: fp8 is off by {error:.4} of the logits' norm");
        }
    }

    fn fp8_weighs_less_and_says_so() {
        let checkpoint = Checkpoint::random(Shape::Small).unwrap();
        let [bf16, fp8] = [Precision::Bf16, Precision::Fp8].map(|precision| on_gpu(&checkpoint, precision));
        assert_eq!(fp8.precision(), Precision::Fp8);
        assert!(fp8.memory(128).weights < bf16.memory(128).weights * 2 / 3);
        assert!(fp8.memory(128).buffers > bf16.memory(128).buffers);
    }

    fn fp8_refuses_sizes_that_it_cannot_multiply() {
        let (folder, checkpoint) = Odd::ALL[0].checkpoint();
        let refused = CudaPredictor::load(&checkpoint, Some(Precision::Fp8)).err().unwrap();
        let expected = "fp8 needs sizes that are multiples of 16, but this model's hidden size is 66: use precision bf16";
        assert_eq!(refused.to_string(), expected);
        drop(folder);
    }
}
