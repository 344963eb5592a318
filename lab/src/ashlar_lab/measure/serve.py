"""placeholder"""
def drive(process, server, folder):
    raise NotImplementedError
