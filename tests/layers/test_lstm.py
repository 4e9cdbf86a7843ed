from autocl.layers.lstm import LSTM


def test_it_keeps_the_contract_of_a_layer(layer_checks):
    layer_checks(LSTM(width=6, hidden=5), 6).all()


def test_two_of_them_are_the_papers_lstm():
    # Conv-LSTM (2 × 256) of SPEC §2: 956,901 parameters with features and 5 labels as input, no projection.
    stack = [LSTM(width=128 + 5, hidden=256), LSTM(width=256, hidden=256)]
    assert sum(p.numel() for layer in stack for p in layer.parameters()) == 956_901 - 28_896 - 1_285
